-- Look whether the children of a step have ended, under the token of their parent's lease; if so, the
-- step ends. One with a single child has its result, or fails as it failed. Of several it has the numbers,
-- {"total", "failed"}, and fails if one has, unless p_tolerant. Returns a row as windlass.record_steps does.
--
-- The lease is locked in one statement and the children are looked at in the next: whoever ends one later
-- leaves a wake, and windlass.tend cannot take that for done while we have the lease.
create or replace function windlass.await_children(
  p_tenant text, p_id uuid, p_token bigint, p_path text, p_tolerant boolean default false
) returns table (
  answer text, path text, kind text, state text, seq integer, attempt integer, failures integer,
  started_at timestamptz, at timestamptz, until timestamptz, input text, signal text, value json,
  error json, seconds_left double precision
)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_kind text;
  v_input text;
  v_state text := 'waiting';
  v_failures integer := 0;
  v_value json;
  v_error json;
begin
  perform 1 from windlass.leases l
    where l.tenant = p_tenant and l.id = p_id and l.token = p_token for update;
  select s.kind, s.input into v_kind, v_input from windlass.steps s
   where s.tenant = p_tenant and s.run = p_id and s.generation = 0 and s.path = p_path;
  if v_kind is null or v_kind not in ('child', 'children') then
    perform windlass.refuse('await_children', 'path', 'is not a step that has started children');
  end if;
  if not exists (select 1 from windlass.children c
                  where c.parent = p_id and c.tenant = p_tenant and c.generation = 0
                    and c.path = p_path and c.state <> 'ended') then
    if v_kind = 'child' then
      select case when r.status = 'succeeded' then 'done' else 'failed' end,
             (r.status is distinct from 'succeeded')::integer, r.error,
             case when r.status = 'succeeded' then r.result
                  else json_build_object('run', c.id, 'status', coalesce(r.status, 'deleted'),
                                         'failure', r.failure, 'reason', r.reason) end
        into v_state, v_failures, v_error, v_value
        from windlass.children c
        left join lateral (select r.* from windlass.runs r
                            where r.tenant = c.tenant and r.id = c.id limit 1) r on true
       where c.parent = p_id and c.tenant = p_tenant and c.generation = 0 and c.path = p_path
         and c.n = 0;
    else
      select case when x.failed > 0 and not p_tolerant then 'failed' else 'done' end,
             (x.failed > 0 and not p_tolerant)::integer, json_build_object('total', x.total, 'failed', x.failed)
        into v_state, v_failures, v_value
        from (select count(*) as total,
                     count(*) filter (where (select r.status from windlass.runs r
                                              where r.tenant = c.tenant and r.id = c.id limit 1)
                                            is distinct from 'succeeded') as failed
                from windlass.children c
               where c.parent = p_id and c.tenant = p_tenant and c.generation = 0
                 and c.path = p_path) x;
    end if;
  end if;
  return query select * from windlass.record_steps(json_build_array(json_build_object(
    'tenant', p_tenant, 'id', p_id, 'token', p_token, 'path', p_path, 'kind', v_kind, 'input', v_input,
    'state', v_state, 'failures', v_failures, 'value', v_value, 'error', v_error)));
end
$$;
