-- The events of all subjects after a place, in the order in which they were committed; null: from the
-- beginning. A place of which the events that follow are deleted is refused (WL020). Pages of transactions that still run, and all that began after the oldest of these, are
-- held back: to go on from the last place seen misses nothing.
create or replace function windlass.list_feed(p_after text default null, p_limit integer default 1000)
returns table (place text, tenant text, subject uuid, seq integer, type text, at timestamptz,
               attempt integer, data json)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_after text[] := string_to_array(coalesce(p_after, '1:0:0:0'), ':');
  v_era integer;
  v_moment bigint;
  v_n bigint;
  v_k bigint;
  v_mark text;
  v_gone text[];
begin
  if p_after !~ '^[0-9]{1,9}(:[0-9]{1,18}){3}$' then
    perform windlass.refuse('list_feed', 'after', 'is not a place in the feed');
  end if;
  v_era := v_after[1];
  v_moment := v_after[2];
  v_n := v_after[3];
  v_k := v_after[4];
  if p_after is not null then
    select c.mark into v_mark from windlass.chores c
     where c.kind = 'feed' and c.tenant = '' and c.job = '';
    v_gone := string_to_array(v_mark, ':');
    if (v_era, v_moment, v_n, v_k)
       < (v_gone[1]::integer, v_gone[2]::bigint, v_gone[3]::bigint, v_gone[4]::bigint) then
      raise exception 'the events after % are deleted', p_after
        using errcode = 'WL020', detail = json_build_array(p_after, v_mark)::text;
    end if;
  end if;
  return query
    select format('%s:%s:%s:%s', p.era, p.moment, p.n, s.k), p.tenant, s.subject, p.seq, p.type,
           p.at, p.attempt, p.data[s.k]
      from (select p.* from windlass.pages p
             where p.era = v_era and (p.moment, p.n) >= (v_moment, v_n)
               and p.moment < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
             order by p.moment, p.n limit p_limit + 1) p
     cross join lateral unnest(p.subjects) with ordinality as s(subject, k)
     where (p.moment, p.n, s.k) > (v_moment, v_n, v_k)
     order by p.moment, p.n, s.k
     limit p_limit;
end
$$;
