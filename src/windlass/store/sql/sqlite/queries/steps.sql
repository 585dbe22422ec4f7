-- Steps and signals. The lease was read in this transaction and its token compared; with one writer
-- at a time the comparison still holds here.

-- name: get_step
select path, kind, state, seq, attempt, failures, started_at, at, until, input, signal, value, error,
       generation
  from steps where tenant = :tenant and run = :run and generation = 0 and path = :path

-- name: list_steps
select path, kind, state, seq, attempt, failures, started_at, at, until, input, signal, value, error,
       generation
  from steps
 where tenant = :tenant and run = :run and generation = :generation and path > coalesce(:after, '')
 order by path limit :limit

-- name: put_step
insert into steps (tenant, run, generation, path, kind, state, seq, attempt, failures, started_at,
                   at, until, input, signal, value, error)
values (:tenant, :run, 0, :path, :kind, :state, :seq, :attempt, :failures, :started_at, :at, :until,
        :input, :signal, :value, :error)
on conflict do update
  set state = excluded.state, seq = excluded.seq, attempt = excluded.attempt,
      failures = excluded.failures, at = excluded.at, until = excluded.until,
      value = excluded.value, error = excluded.error

-- name: take_seqs
update leases set seq = :seq where tenant = :tenant and id = :id

-- name: answered_wait
-- Whether a step waits for a signal that is there, or for children that have all ended.
select 1
  from steps s
 where s.tenant = :tenant and s.run = :run and s.generation = 0 and s.path = :path
   and s.state = 'waiting'
   and case when s.kind in ('child', 'children')
            then not exists (select 1 from children c
                              where c.tenant = s.tenant and c.parent = s.run and c.generation = 0
                                and c.path = s.path and c.state <> 'ended')
            else exists (select 1 from signals g
                          where g.tenant = s.tenant and g.run = s.run and g.name = s.signal
                            and g.taken_by is null) end

-- name: next_signal
select number, payload from signals
 where tenant = :tenant and run = :run and name = :name and taken_by is null
 order by number limit 1

-- name: take_signal
update signals set taken_by = :path where tenant = :tenant and run = :run and number = :number

-- name: signal_of_key
select number, name, at, payload, key, taken_by from signals
 where tenant = :tenant and run = :run and name = :name and key = :key

-- name: list_signals
select number, name, at, payload, key, taken_by from signals
 where tenant = :tenant and run = :run and number > :after
 order by number limit :limit

-- name: insert_signal
insert into signals (tenant, run, number, name, key, payload, at)
values (:tenant, :run, :number, :name, :key, :payload, :at)

-- name: next_seq_ready
update ready set seq = :seq where tenant = :tenant and id = :id

-- name: next_seq_timer
update timers set seq = :seq where tenant = :tenant and id = :id

-- name: waits_for_signal
select 1 from steps
 where tenant = :tenant and run = :run and generation = 0 and path = :path and state = 'waiting'
   and signal = :name

-- name: any_step
-- Those of inputs that the run went on from were not made with the one that it has.
select 1 from steps where tenant = :tenant and run = :run and generation <= 0 limit 1

-- name: forget_failed_steps
-- A step that failed is the record of its event: it is kept, in a generation of its own.
update steps set generation = -:attempt
 where tenant = :tenant and run = :run and generation = 0 and state in ('failed', 'retrying')

-- name: seq_of_step
-- Also of one that failed, and was forgotten because its run was just reopened. A phase that has begun
-- has only steps in it.
select count(*), min(seq) from steps
 where tenant = :tenant and run = :run and generation in (0, -:attempt)
   and (path = :path or substr(path, 1, length(:path) + 1) = :path || '/')

-- name: steps_from
-- What is forgotten if a run begins anew: all, or a step and what was recorded after it; and what was
-- forgotten when it was just reopened.
select path from steps
 where tenant = :tenant and run = :run and generation in (0, -:attempt)
   and (:path is null or seq is null or seq >= :seq or path = :path
        or substr(path, 1, length(:path) + 1) = :path || '/')

-- name: forget_step
update steps set generation = -:attempt
 where tenant = :tenant and run = :run and generation = 0 and path = :path

-- name: forget_children
update children set generation = iif(generation = 0, -:attempt, generation), detached = state <> 'ended'
 where tenant = :tenant and parent = :run and generation in (0, -:attempt) and path = :path

-- name: free_signals
update signals set taken_by = null
 where tenant = :tenant and run = :run and generation = 0 and taken_by = :path

-- name: delete_progress
delete from progress where tenant = :tenant and id = :id

-- name: next_generation
select coalesce(max(generation), 0) + 1 from generations where tenant = :tenant and run = :run

-- name: keep_input
insert into generations (tenant, run, generation, input, attempt, seq, at)
select tenant, id, :generation, input, :attempt, :seq, :now from runs
 where tenant = :tenant and id = :run

-- name: keep_steps
update steps set generation = :generation where tenant = :tenant and run = :run and generation = 0

-- name: keep_signals
update signals set generation = :generation
 where tenant = :tenant and run = :run and generation = 0 and taken_by is not null

-- name: list_generations
select generation, input, attempt, seq, at from generations
 where tenant = :tenant and run = :run and generation > :after
 order by generation limit :limit

-- name: get_approval
select state, signal, until, json_extract(input, '$.token') from steps
 where tenant = :tenant and run = :run and generation = 0 and path = :path and kind = 'approval'

-- name: list_approvals
select s.run, r.job, s.path, s.input, s.started_at, s.until
  from steps s cross join runs r on r.tenant = s.tenant and r.id = s.run
 where s.tenant = :tenant and s.kind = 'approval' and s.state = 'waiting' and s.generation = 0
   and (s.run, s.path) > (:run, :path)
   and r.status is null and (s.until is null or s.until > :now)
   and not exists (select 1 from signals g
                    where g.tenant = s.tenant and g.run = s.run and g.name = s.signal)
 order by s.run, s.path limit :limit
