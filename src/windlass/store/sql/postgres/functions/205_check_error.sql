-- The error of an attempt as it is stored: {type, message, traceback, fingerprint} and whatever
-- else its language has to say. What is missing is filled in; dead letters are grouped by the
-- fingerprint, so without one it is made of the job and the type. Anything but an object, or a
-- member that is no text, raises WL005: readers count on these.
create or replace function windlass.check_error(p_job text, p_error json) returns json
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_kind text := json_typeof(p_error);
  v_member text;
  v_missing boolean := false;
  v_type text;
begin
  if v_kind = 'null' then
    return null;
  elsif v_kind <> 'object' then
    perform windlass.refuse(p_job, 'error', 'is not an object');
  end if;
  perform windlass.check_json('error', array[p_error]);
  foreach v_member in array '{type,message,traceback,fingerprint}'::text[] loop
    v_kind := coalesce(json_typeof(p_error -> v_member), 'null');
    if v_kind = 'null' then
      v_missing := true;
    elsif v_kind <> 'string' then
      perform windlass.refuse(p_job, 'error', format('has a %s that is not text', v_member));
    end if;
  end loop;
  if not v_missing then
    return p_error;
  end if;
  v_type := coalesce(p_error ->> 'type', 'Error');
  return p_error::jsonb || jsonb_build_object(
    'type', v_type,
    'message', coalesce(p_error ->> 'message', ''),
    'traceback', coalesce(p_error ->> 'traceback', ''),
    'fingerprint', coalesce(
      p_error ->> 'fingerprint',
      left(encode(sha256(convert_to(v_type || '|' || p_job, 'UTF8')), 'hex'), 16)));
end
$$;
