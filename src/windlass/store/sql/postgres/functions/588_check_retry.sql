-- Refuse a retry policy that domain/policy.py would not read: {kind, base, cap, factor, jitter},
-- each of which may be left out.
create or replace function windlass.check_retry(p_job text, p_retry json) returns json
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_member record;
  v_kind text := json_typeof(p_retry);
  v_base double precision := 1;
  v_cap double precision;
begin
  if v_kind = 'null' then
    return null;
  elsif v_kind <> 'object' then
    perform windlass.refuse(p_job, 'retry', 'is not an object');
  end if;
  for v_member in
    select m.key, r.name is not null as is_known, m.value #>> '{}' as text, x.number,
           json_typeof(m.value) = 'number' and x.number between r.least and r.most as is_right
      from json_each(p_retry) m
      left join (values ('base', 0, 3155760000), ('cap', 0, 3155760000), ('factor', 1, 1000),
                        ('jitter', 0, 1)) as r(name, least, most) on r.name = m.key
     cross join lateral (select case json_typeof(m.value)
                                  when 'number' then windlass.to_float(m.value) end) as x(number)
  loop
    if v_member.key = 'kind' then
      if coalesce(v_member.text, '')
         not in ('never', 'fixed', 'linear', 'exponential', 'custom') then
        perform windlass.refuse(
          p_job, 'retry', 'has a kind that is not never, fixed, linear, exponential or custom');
      end if;
    elsif not v_member.is_known then
      perform windlass.refuse(
        p_job, 'retry', format('has a member %s: there are kind, base, cap, factor and jitter',
                               left(v_member.key, 100)));
    elsif not v_member.is_right then
      perform windlass.refuse(p_job, 'retry',
                              format('has a %s that is out of range', v_member.key));
    elsif v_member.key = 'base' then
      v_base := v_member.number;
    elsif v_member.key = 'cap' then
      v_cap := v_member.number;
    end if;
  end loop;
  if v_cap < v_base then
    perform windlass.refuse(p_job, 'retry', 'has a cap that is less than its base');
  end if;
  return p_retry;
end
$$;
