-- What ends a lap of a walk, its slack and its pause: lap_of, slack_of and pause_of of domain/retention.py.
create or replace function windlass.walk_times(
  p_age double precision, out lap interval, out slack interval, out pause interval
)
language plpgsql immutable
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  lap := make_interval(secs => least(86400, greatest(60, p_age)));
  slack := make_interval(secs => least(3600, p_age / 20));
  pause := make_interval(secs => least(60, greatest(1, p_age / 10)));
end
$$;

-- Go on with a walk over the runs of a job, for p_limit runs at most: the chores "stale" and "delete" of
-- domain/retention.py. p_terms: those of jobs that say nothing. Returns the chore as it is then, and what
-- was done.
create or replace function windlass.walk_old(
  inout p_chore windlass.chores, p_terms json, p_limit integer,
  out changed integer, out spent integer, out locations text[]
)
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_now timestamptz := windlass.now();
  v_kept json;
  v_ages json;
  v_age double precision;
  v_times record;
  v_low uuid;
  v_old uuid;
  v_high uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  v_first uuid;
  v_seen uuid[];
  v_due uuid[];
  v_most integer := p_limit * 5;  -- how many are looked at
  v_done record;
begin
  changed := 0;
  spent := 0;
  locations := '{}';
  select j.retention into v_kept from windlass.jobs j
   where j.tenant = p_chore.tenant and j.name = p_chore.job;
  v_kept := coalesce(v_kept, p_terms);
  v_ages := v_kept -> p_chore.kind;
  v_age := least((v_ages ->> 'succeeded')::double precision, (v_ages ->> 'failed')::double precision,
                 (v_ages ->> 'canceled')::double precision);
  select * into v_times from windlass.walk_times(v_age);
  if p_chore.terms is distinct from v_kept::text
     or (not p_chore.lapping and v_now - p_chore.lap_at >= v_times.lap) then
    p_chore.terms := v_kept::text;
    p_chore.mark := null;
    p_chore.lapping := true;
    p_chore.lap_at := v_now;
  end if;
  if v_age is null then
    p_chore.due_at := v_now + interval '60 s';
    return;
  end if;
  v_low := coalesce(p_chore.mark, '00000000-0000-0000-0000-000000000000')::uuid;
  v_old := windlass.id_at(v_now - make_interval(secs => v_age) - v_times.slack);
  if not p_chore.lapping then
    v_high := v_old;
  end if;
  if p_chore.kind = 'delete' and (v_kept ->> 'keep_last')::integer > 0 then
    select r.id into v_first from windlass.runs r
     where (r.job, r.tenant, r.id) < (p_chore.job, p_chore.tenant,
                                      'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
       and (r.job, r.tenant, r.id) >= (p_chore.job, p_chore.tenant,
                                       '00000000-0000-0000-0000-000000000000'::uuid) and r.job <> ''
     order by r.job desc, r.tenant desc, r.id desc
     offset (v_kept ->> 'keep_last')::integer - 1 limit 1;
    v_high := least(v_high, coalesce(v_first, '00000000-0000-0000-0000-000000000000'));
  end if;
  select array_agg(s.id order by s.id), array_agg(s.id order by s.id) filter (where s.is_due)
    into v_seen, v_due
    from (select r.id,
                 coalesce(r.finished_at + make_interval(secs => (v_ages ->> r.status)::double precision)
                            <= v_now
                          and (p_chore.kind = 'delete' or r.stale_at is null), false) as is_due
            from windlass.runs r
           where (r.job, r.tenant, r.id) > (p_chore.job, p_chore.tenant, v_low)
             and (r.job, r.tenant, r.id) < (p_chore.job, p_chore.tenant, v_high) and r.job <> ''
           order by r.job, r.tenant, r.id limit v_most) s;
  spent := least(p_limit, coalesce(cardinality(v_due), 0)) + coalesce(cardinality(v_seen), 0) / 5;
  if v_due is not null and p_chore.kind = 'delete' then
    select * into v_done from windlass.drop_runs(p_chore.tenant, v_due[:p_limit]);
    changed := v_done.deleted;
    locations := v_done.locations;
  elsif v_due is not null then
    changed := windlass.make_stale(p_chore.tenant, v_due[:p_limit]);
  end if;
  if cardinality(v_due) > p_limit then
    p_chore.mark := v_due[p_limit];
    return;
  elsif cardinality(v_seen) = v_most then
    p_chore.mark := v_seen[v_most];
    return;
  end if;
  p_chore.mark := case when p_chore.lapping then least(v_high, v_old) else greatest(v_low, v_high) end;
  p_chore.lapping := false;
  p_chore.due_at := v_now + v_times.pause;
end
$$;
