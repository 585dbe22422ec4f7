-- What a caller notes about a run: an object, small enough to be read with every listing. Null is none.
create or replace function windlass.check_metadata(p_job text, p_metadata json) returns json
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if json_typeof(p_metadata) = 'null' then
    return null;
  elsif json_typeof(p_metadata) <> 'object' then
    perform windlass.refuse(p_job, 'metadata', 'is not an object');
  elsif octet_length(p_metadata::text) > 16384 then
    perform windlass.refuse(p_job, 'metadata', 'has more than 16,384 bytes of JSON');
  elsif windlass.needs_judging(p_metadata::text, true) then
    perform windlass.judge_json('metadata', p_metadata::text);
  end if;
  return p_metadata;
end
$$;

-- A trace id, or whatever else says to which trace a run belongs.
create or replace function windlass.check_trace(p_job text, p_trace text) returns void
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if length(p_trace) not between 1 and 200 then
    perform windlass.refuse(p_job, 'trace', 'is not a text of 1 to 200 characters');
  end if;
end
$$;
