-- The audit log: see domain/audit.py.

-- name: insert_audit
insert into audit (tenant, at, actor, verb, kind, subject, reason, detail)
values (:tenant, :at, :actor, :verb, :kind, :subject, :reason, :detail)

-- name: list_audit
select n, at, actor, verb, kind, subject, reason, detail from audit
 where tenant = :tenant and n < :before order by n desc limit :limit

-- name: list_audit_of
select n, at, actor, verb, kind, subject, reason, detail from audit
 where subject = :subject and tenant = :tenant and n < :before
   and (:kind is null or kind = :kind) and (:actor is null or actor = :actor)
 order by n desc limit :limit

-- name: list_audit_by
select n, at, actor, verb, kind, subject, reason, detail from audit
 where actor = :actor and tenant = :tenant and n < :before order by n desc limit :limit
