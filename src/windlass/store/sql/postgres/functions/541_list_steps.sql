-- What a run remembers of its steps, by path. The next page: p_after = the last path of this one.
-- p_generation: of an input that the run went on from.
create or replace function windlass.list_steps(
  p_tenant text, p_run uuid, p_after text default null, p_limit integer default 1000,
  p_generation integer default 0
) returns table (
  path text, kind text, state text, seq integer, attempt integer, failures integer,
  started_at timestamptz, at timestamptz, until timestamptz, input text, signal text, value json,
  error json, generation integer, "left" double precision
)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  return query
    select s.path, s.kind, s.state, s.seq, s.attempt, s.failures, s.started_at, s.at, s.until,
           s.input, s.signal, s.value, s.error, s.generation,
           extract(epoch from s.until - windlass.now())::double precision
      from windlass.steps s
     where s.tenant = p_tenant and s.run = p_run and s.generation = p_generation
       and s.path > coalesce(p_after, '')
     order by s.path limit p_limit;
end
$$;
