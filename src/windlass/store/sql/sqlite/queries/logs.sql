-- The logs of runs: see domain/runlog.py.

-- name: ended_under
-- Whether the attempt of a token has ended the run.
select 1 from runs where tenant = :tenant and id = :run and token = :token and status is not null

-- name: put_log
insert into run_logs (tenant, run, token, first, attempt, lines)
values (:tenant, :run, :token, :first, :attempt, :lines)
on conflict do nothing

-- name: list_logs
select token, first, attempt, lines from run_logs
 where tenant = :tenant and run = :run and (token, first) > (:token, :first)
 order by token, first
 limit :limit
