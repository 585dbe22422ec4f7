-- A result as it is stored: any document within the limits of windlass.judge_json.
create or replace function windlass.check_result(p_result json) returns json
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  perform windlass.check_json('result', array[p_result]);
  return p_result;
end
$$;
