-- Add an event of a program's own to its run, under the token of the run's lease. Returns its seq, or null:
-- the lease is not held under that token, and nothing was written. Called again, it is told again.
--
-- Names are as domain/event_names.py has them; the data is an object of at most 16 KiB.
create or replace function windlass.emit(
  p_tenant text, p_id uuid, p_token bigint, p_name text, p_data json default '{}'
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_seq integer;
  v_attempt integer;
begin
  if p_name is null or length(p_name) > 100
     or p_name collate "C" !~ '^[a-z][a-z0-9_]*([.][a-z0-9][a-z0-9_]*)+$' then
    perform windlass.refuse('emit', 'name', 'is not the name of an event, such as order.shipped');
  elsif split_part(p_name, '.', 1) = any (array[
          'run', 'step', 'phase', 'schedule', 'batch', 'delivery', 'endpoint', 'job', 'queue',
          'worker', 'stream', 'windlass']) then
    perform windlass.refuse('emit', 'name', 'begins with a word that Windlass keeps for its own');
  elsif p_data is null or json_typeof(p_data) <> 'object' or octet_length(p_data::text) > 16384 then
    perform windlass.refuse('emit', 'data', 'is not an object of at most 16 KiB');
  end if;
  perform windlass.check_json('event', array[p_data]);
  update windlass.leases l set seq = l.seq + 1
   where l.tenant = p_tenant and l.id = p_id and l.token = p_token
  returning l.seq, l.attempt into v_seq, v_attempt;
  if found then
    insert into windlass.event_rows (tenant, subject, seq, type, at, attempt, data)
    values (p_tenant, p_id, v_seq, p_name, windlass.now(), v_attempt, p_data);
  end if;
  return v_seq;
end
$$;
