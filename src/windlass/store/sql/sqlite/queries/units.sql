-- Units that are staged for a batch, or belong to one: see domain/batch.py.

-- name: put_units
insert into units (tenant, batch, first, count, units)
values (:tenant, :batch, :first, :count, :units)
on conflict (tenant, batch, first) do nothing

-- name: put_staged
insert into staged (tenant, batch, until) values (:tenant, :batch, :until)
on conflict (tenant, batch) do update set until = excluded.until

-- name: extend_staged
update staged set until = :until where tenant = :tenant and batch = :batch

-- name: count_units
select coalesce(sum(count), 0) from units where tenant = :tenant and batch = :batch

-- name: units_at
select first, units from units
 where tenant = :tenant and batch = :batch and first <= :n order by first desc limit 1

-- name: is_run
select 1 from runs where tenant = :tenant and id = :id

-- name: overdue_staged
select tenant, batch from staged where until < :now order by until limit 1

-- name: delete_staged
delete from staged where tenant = :tenant and batch = :batch

-- name: delete_units
delete from units where rowid in (
  select rowid from units where tenant = :tenant and batch = :batch limit :limit)
