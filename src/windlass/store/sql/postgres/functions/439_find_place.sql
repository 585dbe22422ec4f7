-- A place in the feed (see windlass.list_feed): whatever is committed from now on comes after it. With
-- p_at, one before all events since then.
--
-- It is found by halving, as if times rose with the places. They nearly do: a page has the time of its
-- transaction and the place of its commit. So not one page is looked at but the latest time of fifty, and
-- that must be within a minute of the time that is looked for.
create or replace function windlass.find_place(p_at timestamptz default null)
returns text
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_end bigint := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
  v_before bigint;
  v_from bigint := v_end;
  v_middle bigint;
  v_at timestamptz;
begin
  if p_at is null then
    return format('1:%s:%s:0', v_end - 1, 999999999999999999);
  end if;
  -- Everything up to v_before is too early; what begins at v_from is not.
  select p.moment - 1 into v_before from windlass.pages p where p.era = 1
   order by p.era, p.moment, p.n limit 1;
  v_before := coalesce(v_before, v_end);
  while v_before + 1 < v_from loop
    v_middle := v_before + (v_from - v_before) / 2;
    select max(x.at) into v_at
      from (select p.at from windlass.pages p where p.era = 1 and (p.moment, p.n) >= (v_middle, 0)
             order by p.era, p.moment, p.n limit 50) x;
    if v_at < p_at - interval '1 minute' then
      v_before := v_middle;
    else
      v_from := v_middle;
    end if;
  end loop;
  return format('1:%s:0:0', least(v_before + 1, v_from));
end
$$;
