-- A run with links has ended, was reopened or deleted: see the triggers of migrations/0004_children.sql.
-- Its parent is to be looked at, and so is the run itself if its children are to end with it. So are those
-- that come after it: see migrations/0009_followers.sql.
create or replace function windlass.note_child() returns trigger
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  if tg_op = 'UPDATE' and new.status is null then
    update windlass.children c set state = 'live', detached = false
     where c.tenant = new.tenant and c.id = new.id;
    return null;
  end if;
  with ended as (
    update windlass.children c set state = 'ended'
     where c.tenant = old.tenant and c.id = old.id and c.state <> 'ended'
    returning c.tenant, c.parent
  )
  insert into windlass.wakes (tenant, run) select e.tenant, e.parent from ended e;
  if tg_op = 'DELETE' and old.links & 8 <> 0 then
    delete from windlass.follows f where f.tenant = old.tenant and f.id = old.id;
  end if;
  if old.links & 4 <> 0 or (tg_op = 'UPDATE' and new.links & 4 <> 0) then
    with noted as (
      update windlass.follows f
         set outcome = case when tg_op = 'DELETE' then 'deleted' else new.status end
       where f.awaited = old.id and f.tenant = old.tenant and f.outcome is null
      returning f.tenant, f.id
    )
    insert into windlass.wakes (tenant, run) select n.tenant, n.id from noted n;
  end if;
  if tg_op = 'UPDATE' and new.links & 2 <> 0
     and (new.status = 'canceled'
          or new.status = 'failed'
             and exists (select 1 from windlass.batches b
                          where b.tenant = new.tenant and b.run = new.id)) then
    insert into windlass.wakes (tenant, run) values (new.tenant, new.id);
  end if;
  return null;
end
$$;

-- What a step has started goes where its step goes. Of one that is tried anew, what succeeded stays.
create or replace function windlass.move_children() returns trigger
language plpgsql security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  update windlass.children c set generation = new.generation
   where c.parent = old.run and c.tenant = old.tenant and c.generation = old.generation
     and c.path = old.path
     and (new.generation > 0
          or (select r.status from windlass.runs r
               where r.tenant = c.tenant and r.id = c.id limit 1) is distinct from 'succeeded');
  return null;
end
$$;
