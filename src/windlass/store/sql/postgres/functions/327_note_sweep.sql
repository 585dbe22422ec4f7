-- Note that somebody sweeps at p_now, and whether there was a gap before: longer than a third of the
-- shortest lease nobody had swept. The store was away, or nobody was there, or the clock was set
-- ahead: whatever it was, workers may not have been able to renew (see windlass.is_excused).
--
-- Returns the time up to which waiting runs may be ended: p_now, or the beginning of a gap that is
-- not two thirds of a lease over. A store that was never swept has no such gap.
--
-- p_now is what the caller judges by, taken before anything that may have to wait. Little is
-- written, and nothing waits: a mark that is a twelfth of a lease old will do.
create or replace function windlass.note_sweep(p_now timestamptz) returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_shortest interval;
  v_longest interval;
  v_last timestamptz;
  v_certain timestamptz;
begin
  select coalesce(min(w.alive_until - w.renewed_at), '30 s'),
         coalesce(max(w.alive_until - w.renewed_at), '30 s')
    into v_shortest, v_longest
    from windlass.workers w;
  -- A mark in the future was made before the clock was set back, and says nothing.
  select max(s.at) into v_last from windlass.sweeps s where s.at <= p_now + v_shortest / 3;
  if v_last is null or v_last <= p_now - v_shortest / 12 then
    insert into windlass.sweeps (at, gap_from)
    values (p_now, case when v_last is null then 'epoch'
                        when v_last < p_now - v_shortest / 3 then v_last end);
    delete from windlass.sweeps s
     where s.ctid = any (array (
             select o.ctid from windlass.sweeps o
              where (o.at < p_now and (o.gap_from is null or o.at < p_now - v_longest))
                 or o.at > p_now + v_shortest / 3
                for update skip locked));
  end if;
  select min(s.gap_from) into v_certain
    from windlass.sweeps s
   where s.gap_from > 'epoch' and s.at > p_now - v_shortest * 2 / 3
     and s.at <= p_now + v_shortest / 3;
  return coalesce(v_certain, p_now);
end
$$;
