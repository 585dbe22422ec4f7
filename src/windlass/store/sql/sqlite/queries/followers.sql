-- Followers: see domain/follower.py, and the triggers of migrations/0009_followers.sql.

-- name: insert_follow
insert into follows (tenant, id, n, awaited, mode, argument)
values (:tenant, :id, :n, :awaited, :mode, :argument)

-- name: mark_follower
update runs set links = coalesce(links, 0) | 8 where tenant = :tenant and id = :id

-- name: mark_awaited
-- Those that live, so that their ends are noted.
update runs set links = coalesce(links, 0) | 4
 where (tenant, id) in (select tenant, awaited from follows
                         where tenant = :tenant and id = :id and outcome is null)
   and status is null and not coalesce(links & 4, 0)

-- name: note_outcomes
-- Of those that had ended before they were marked.
update follows
   set outcome = coalesce((select r.status from runs r
                            where r.tenant = follows.tenant and r.id = follows.awaited), 'deleted')
 where tenant = :tenant and id = :id and outcome is null
   and not exists (select 1 from runs r where r.tenant = follows.tenant and r.id = follows.awaited
                      and r.status is null)

-- name: follows_of
select n, awaited, mode, argument, outcome from follows
 where tenant = :tenant and id = :id order by n

-- name: list_follows
select id, n, awaited, mode, argument, outcome from follows
 where tenant = :tenant and id = :run order by n limit :limit

-- name: list_followers
-- By name: without statistics SQLite would walk all rows of the tenant, to have them in this order.
select id, n, awaited, mode, argument, outcome from follows indexed by follows_by_awaited
 where tenant = :tenant and awaited = :run order by id limit :limit

-- name: is_follower
select 1 from follows where tenant = :tenant and id = :id limit 1

-- name: result_of
select status, result from runs where tenant = :tenant and id = :id

-- name: put_outcome
update follows set outcome = :outcome where tenant = :tenant and id = :id and n = :n
