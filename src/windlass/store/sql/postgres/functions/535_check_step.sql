-- Refuse a step that no client could have written (WL005). True, if it is one.
create or replace function windlass.check_step(
  p_path text, p_signal text, p_kind text, p_state text, p_failures integer,
  p_wait double precision, p_took double precision
) returns boolean
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if p_path is null or octet_length(p_path) not between 1 and 1600 then
    perform windlass.refuse('record_steps', 'path', 'is not a text of 1 to 1600 bytes');
  elsif p_kind is null or p_kind !~ '^[a-z_]{1,30}$' then
    perform windlass.refuse('record_steps', 'kind', 'is not a kind of step');
  elsif p_state is null or p_state not in ('done', 'failed', 'retrying', 'waiting') then
    perform windlass.refuse('record_steps', 'state', 'is not done, failed, retrying or waiting');
  elsif octet_length(p_signal) not between 1 and 1000 then
    perform windlass.refuse('record_steps', 'signal', 'is not a text of 1 to 1000 bytes');
  elsif p_failures not between 0 and 1000000 then
    perform windlass.refuse('record_steps', 'failures', 'is not of 0 to 1000000');
  end if;
  perform windlass.check_length('record_steps', 'wait', p_wait);
  perform windlass.check_length('record_steps', 'took', p_took);
  return true;
end
$$;
