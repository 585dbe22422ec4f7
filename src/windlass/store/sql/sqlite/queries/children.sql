-- Children: see domain/child.py, and the triggers of migrations/0004_children.sql.

-- name: child_places
-- The places that the children of a step have.
select n from children
 where tenant = :tenant and parent = :parent and generation = 0 and path = :path

-- name: root_of
select root from children where tenant = :tenant and id = :id

-- name: insert_child
insert into children (tenant, id, parent, root, path, n, state)
values (:tenant, :id, :parent, :root, :path, :n, :state)

-- name: mark_child
update runs set links = 1 where tenant = :tenant and id = :id

-- name: mark_parent
update runs set links = coalesce(links, 0) | 2
 where tenant = :tenant and id = :id and not coalesce(links & 2, 0)

-- name: unfinished_child
select 1 from children
 where tenant = :tenant and parent = :parent and generation = 0 and path = :path
   and state <> 'ended'
 limit 1

-- name: only_child
select c.id, r.status, r.failure, r.result, r.error, r.reason
  from children c left join runs r on r.tenant = c.tenant and r.id = c.id
 where c.tenant = :tenant and c.parent = :parent and c.generation = 0 and c.path = :path
   and c.n = 0

-- name: count_children
select count(*), count(*) filter (where r.status is not 'succeeded')
  from children c left join runs r on r.tenant = c.tenant and r.id = c.id
 where c.tenant = :tenant and c.parent = :parent and c.generation = 0 and c.path = :path

-- name: list_children
select c.path, c.n, c.id, c.state, r.status, r.failure, r.result, r.error, r.reason
  from children c left join runs r on r.tenant = c.tenant and r.id = c.id
 where c.tenant = :tenant and c.parent = :run and c.generation = 0
   and (:path is null or c.path = :path)
   and (c.path, c.n) > (coalesce(:after, :path, ''), coalesce(:after_n, -1))
 order by c.path, c.n limit :limit

-- name: wakes
select n, tenant, run from wakes where n > 0 and :now is not null order by n limit :limit

-- name: delete_wake
delete from wakes where n = :n

-- name: insert_wake
insert into wakes (tenant, run) values (:tenant, :run)

-- name: any_wake
select 1 from wakes where n > 0 limit 1

-- name: windowed_steps
-- The steps of a run that hold children back, if there are more than may be live.
select generation, path, json_extract(value, '$.parallel')
  from steps
 where tenant = :tenant and run = :run and kind = 'children' and state = 'waiting'
   and value is not null and +generation >= 0

-- name: count_live_children
select count(*) from children
 where tenant = :tenant and parent = :parent and generation = :generation and path = :path
   and state = 'live' and state <> 'ended'

-- name: held_children
select id from children
 where tenant = :tenant and parent = :parent and generation = :generation and path = :path
   and state = 'held' and state <> 'ended'
 order by n limit :limit

-- name: free_child
update children set state = 'live' where tenant = :tenant and id = :id

-- name: ends_children
-- Why the children of a run are to end, if they are. Those of a batch end with it, however it does.
select iif(r.status = 'canceled', 'its parent was canceled', 'its batch has failed') from runs r
 where r.tenant = :tenant and r.id = :id
   and (r.status = 'canceled'
        or r.status = 'failed'
           and exists (select 1 from batches b where b.tenant = r.tenant and b.run = r.id))

-- name: children_to_cancel
-- Those that nobody was asked to end yet: all, or those that their parent began anew without. By force, also
-- those that were asked.
select c.id from children c
 where c.tenant = :tenant and c.parent = :parent and c.detached >= :detached and c.state <> 'ended'
   and (:forced
        or not exists (select 1 from leases l where l.tenant = c.tenant and l.id = c.id
                          and l.intent = 'cancel'))
 limit :limit

-- name: forget_failed_children
-- A step that waits for many is taken up again: those that have not succeeded, or were asked to end, are
-- started anew.
update children set generation = -:attempt, detached = iif(state = 'ended', 0, 1)
 where tenant = :tenant and parent = :parent and generation = 0
   and path in (select s.path from steps s
                 where s.tenant = :tenant and s.run = :parent and s.generation = 0
                   and s.kind = 'children' and s.state = 'waiting')
   and case when state = 'ended'
            then not exists (select 1 from runs r where r.tenant = children.tenant
                                and r.id = children.id and r.status = 'succeeded')
            else :forced or exists (select 1 from leases l where l.tenant = children.tenant
                                       and l.id = children.id and l.intent = 'cancel') end
