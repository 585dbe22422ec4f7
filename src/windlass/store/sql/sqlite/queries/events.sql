-- Events: appended by whatever changes a run, in the same transaction. What the record, the lease or
-- an attempt says is not written once more: it is only put into the feed, by a page.

-- name: insert_event
insert into event_rows (tenant, subject, seq, type, at, attempt, data)
values (:tenant, :subject, :seq, :type, :at, :attempt, :data)

-- name: insert_page
insert into pages (at, tenant, type, seq, attempt, subjects, data)
values (:at, :tenant, :type, :seq, :attempt, :subjects, :data)

-- name: list_attempts
select attempt, token, worker, outcome, started_at, finished_at, error, version from attempts
 where tenant = :tenant and run = :id and attempt < coalesce(:before, 2147483647)
 order by attempt desc limit :limit

-- name: list_events
select seq, type, at, attempt, data from events
 where tenant = :tenant and subject = :id and seq > :after
 order by seq limit :limit
