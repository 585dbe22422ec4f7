-- The place of a page that is written now, see windlass.pages. Volatile, for a snapshot of its own: the
-- statement that calls it may have waited for a row, and writes after whoever had that.
create or replace function windlass.page_moment() returns bigint
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  return greatest(pg_current_xact_id()::text::bigint,
                  pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1);
end
$$;

-- Page what was written to windlass.event_rows: the function of its trigger. Events of one subject get
-- the order of their seq.
create or replace function windlass.page_events() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects, data)
  select windlass.page_moment(), max(e.at), e.seq, e.attempt, e.tenant, e.type,
         array_agg(e.subject),
         case when count(e.data) > 0 then array_agg(e.data) end
    from fresh e
   where e.type <> 'run.stale'  -- the janitor pages these when it happens
   group by e.tenant, e.type, e.seq, e.attempt
   order by e.seq;
  return null;
end
$$;
