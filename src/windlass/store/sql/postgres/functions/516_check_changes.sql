-- Refuse changes of a run (see windlass.change) that Python would not ask for.
create or replace function windlass.check_changes(p_changes json) returns void
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_change record;
begin
  if json_typeof(p_changes) is distinct from 'object' then
    perform windlass.refuse('change', 'changes', 'is not an object');
  end if;
  perform windlass.check_escapes('changes', p_changes);
  for v_change in select c.key as name, c.value from json_each(p_changes) c loop
    case
      when v_change.name = 'timeout' then
        perform windlass.check_options('change', json_build_object('timeout', v_change.value));
      when v_change.name in ('input', 'tags', 'expires_in', 'expires_at', 'deadline_in',
                             'deadline_at') then
        perform windlass.check_member('change', v_change.name, v_change.value);
      else
        perform windlass.refuse('change', v_change.name, 'is not a part of a run that can be changed');
    end case;
  end loop;
  if p_changes -> 'expires_in' is not null and p_changes -> 'expires_at' is not null then
    perform windlass.refuse('change', 'expires_in', 'excludes expires_at: give one of them');
  elsif p_changes -> 'deadline_in' is not null and p_changes -> 'deadline_at' is not null then
    perform windlass.refuse('change', 'deadline_in', 'excludes deadline_at: give one of them');
  end if;
end
$$;
