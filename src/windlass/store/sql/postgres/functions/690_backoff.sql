-- Seconds to wait after so many failures, by a stored retry policy {kind, base, cap, factor,
-- jitter}; null: never retried. The same formula as domain/policy.py. Without a cap it is an hour,
-- or the base if that is longer.
create or replace function windlass.backoff(p_policy json, p_failures integer)
returns double precision
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_kind text := coalesce(p_policy ->> 'kind', 'exponential');
  v_base double precision := coalesce((p_policy ->> 'base')::double precision, 1);
  v_cap double precision := coalesce((p_policy ->> 'cap')::double precision,
                                     greatest(3600, v_base));
  v_factor double precision := coalesce((p_policy ->> 'factor')::double precision, 2);
  v_jitter double precision := coalesce((p_policy ->> 'jitter')::double precision, 0.5);
  v_delay double precision;
begin
  case v_kind
    when 'never' then return null;
    when 'fixed' then v_delay := v_base;
    when 'linear' then v_delay := least(v_base * p_failures, v_cap);
    -- Past the cap the power itself would overflow: compare logarithms first.
    else v_delay := case when v_base = 0 then 0
                         when v_factor > 1
                          and (p_failures - 1) * ln(v_factor) > ln(v_cap / v_base)
                         then v_cap
                         else least(v_base * v_factor ^ (p_failures - 1), v_cap) end;
  end case;
  return v_delay * (1 - v_jitter * random());
end
$$;
