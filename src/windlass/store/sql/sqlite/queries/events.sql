-- Events: appended by whatever changes a run, in the same transaction.

-- name: insert_event
insert into events (tenant, subject, seq, type, at, attempt, data)
values (:tenant, :subject, :seq, :type, :at, :attempt, :data)

-- name: list_events
select seq, type, at, attempt, data from events
 where tenant = :tenant and subject = :id and seq > :after
 order by seq limit :limit
