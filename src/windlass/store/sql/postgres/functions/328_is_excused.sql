-- Whether a worker whose time ran out may not have been able to renew: a gap between two sweeps was
-- longer than a third of its lease, and since it ended two thirds of a lease have not passed.
--
-- p_every is how often the caller sweeps. Gaps of up to twice that are its usual ones: they excuse
-- those whose time ran out in them, and nobody for a second time.
create or replace function windlass.is_excused(
  p_renewed_at timestamptz, p_alive_until timestamptz, p_now timestamptz, p_every interval
) returns boolean
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_lease interval := p_alive_until - p_renewed_at;
begin
  perform 1 from windlass.sweeps s
    where s.at > p_now - v_lease * 2 / 3 and s.at <= p_now + v_lease / 3
      and s.at - s.gap_from > v_lease / 3
      and not (p_alive_until <= s.gap_from and s.at - s.gap_from <= p_every * 2);
  return found;
end
$$;
