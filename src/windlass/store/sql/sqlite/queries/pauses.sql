-- Pauses of queues and jobs. Claims read them in at_once.sql and claim.sql.

-- name: insert_pause
insert into pauses (tenant, kind, name, since, actor, reason)
values (:tenant, :kind, :name, :since, :actor, :reason)
on conflict do nothing

-- name: get_pause
select tenant, kind, name, since, actor, reason from pauses
 where kind = :kind and name = :name and tenant = :tenant

-- name: delete_pause
delete from pauses where kind = :kind and name = :name and tenant = :tenant

-- name: list_pauses
select tenant, kind, name, since, actor, reason from pauses
 where :tenant is null or tenant = :tenant
 order by kind desc, name, tenant
