-- Enqueue a batch, all or none. Items carry the names of windlass.enqueue's arguments, less
-- the p_, with id and queue given. Returns {"now": …, "existing": [{"n": place in the batch, from
-- 1, "run": owner, "status": …, "created_at": …, "scheduled_for": …}, …]} for the items that made
-- no run: about the run that exists, as it is now.
-- p_keyed = false promises that no item has a key, and saves a pass over the batch. p_patient =
-- false: others wait for this call, so it waits for a key that somebody holds half a second at most.
create or replace function windlass.enqueue_many(
  p_runs json, p_keyed boolean default true, p_patient boolean default true
) returns json
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '5s'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_now timestamptz := windlass.now();
  v_item record;
  v_owner uuid;
  v_passed bigint[] := '{}';  -- places of items that make no run, because …
  v_owners uuid[] := '{}';    -- … these have their key, or their id
  v_tenants text[];
  v_ids uuid[];
  v_inputs json[];
  v_existing json;
begin
  if not p_patient then
    perform set_config('lock_timeout', '500ms', true);  -- until this function returns
  end if;
  perform windlass.check_escapes('batch', p_runs);
  perform windlass.check_items(p_runs);
  if p_keyed then
    -- Keys are taken in one order by everybody; one key, in the order of the batch.
    for v_item in
      select x.n, x.id, coalesce(x.tenant, 'default') as tenant, x.job, x.key, x.key_ttl,
             coalesce(x.options ->> 'unique' = 'live', false) as live,
             coalesce(x.input, p_runs -> (x.n - 1)::integer -> 'input',
                      windlass.default_input(coalesce(x.tenant, 'default'), x.job)) as input
        from rows from (json_to_recordset(p_runs)
               as (id uuid, tenant text, job text, key text, key_ttl double precision,
                   options json, input json)) with ordinality
             as x(id, tenant, job, key, key_ttl, options, input, n)
       where x.key is not null
       order by coalesce(x.tenant, 'default'), x.job, x.key, x.n
    loop
      perform windlass.check_length(v_item.job, 'key_ttl', v_item.key_ttl);
      perform windlass.check_json('input', array[v_item.input]);
      -- A repeat by id needs no key, which may be another's by now.
      if exists (select 1 from windlass.runs r
                  where r.tenant = v_item.tenant and r.id = v_item.id) then
        v_owner := v_item.id;
      else
        v_owner := windlass.take_key(v_item.tenant, v_item.job, v_item.key, v_item.id,
                                     v_item.input, v_item.key_ttl, v_item.live, v_now);
        continue when v_owner = v_item.id;
      end if;
      v_passed := v_passed || v_item.n;
      v_owners := v_owners || v_owner;
    end loop;
  end if;

  with item as (
    select coalesce(x.tenant, 'default') as tenant, x.id, x.job, x.job_version, x.queue,
           coalesce(x.priority, 0) as priority,
           coalesce(x.input, 'null') as input, x.key, x.trace, x.enqueued_by,
           windlass.check_metadata(x.job, x.metadata) as metadata,
           -- What is plainly right is let through; the functions are for the rest.
           case when x.options::text ~ ('^[{]("max_attempts":[1-9][0-9]{0,5})?'
                                        '(,?"timeout":[1-9][0-9]{0,8}([.][0-9]{1,6})?)?[}]$')
                then x.options else windlass.check_options(x.job, x.options) end as options,
           x.tags,
           case when x.at between v_now and '9999-12-30Z' then x.at
                when x.at is not null
                then greatest(v_now, windlass.check_instant(x.job, 'at', x.at))
                when x.delay between 0 and 3155760000 then v_now + make_interval(secs => x.delay)
                when x.delay is not null
                then v_now + windlass.check_length(x.job, 'delay', x.delay)
                else v_now end as due,
           case when x.expires_in between 0 and 3155760000
                then v_now + make_interval(secs => x.expires_in)
                when x.expires_in is not null
                then v_now + windlass.check_length(x.job, 'expires_in', x.expires_in)
                when x.expires_at between v_now and '9999-12-30Z' then x.expires_at
                else windlass.check_instant(x.job, 'expires_at', x.expires_at) end as expires_at,
           case when x.deadline_in between 0 and 3155760000
                then v_now + make_interval(secs => x.deadline_in)
                when x.deadline_in is not null
                then v_now + windlass.check_length(x.job, 'deadline_in', x.deadline_in)
                when x.deadline_at between v_now and '9999-12-30Z' then x.deadline_at
                else windlass.check_instant(x.job, 'deadline_at', x.deadline_at) end as deadline_at
      from rows from (json_to_recordset(p_runs)
             as (tenant text, id uuid, job text, job_version text, queue text, priority integer,
                 input json, options json, key text, tags text[], trace text, metadata json,
                 enqueued_by uuid, at timestamptz, delay double precision,
                 expires_in double precision, expires_at timestamptz,
                 deadline_in double precision, deadline_at timestamptz)) with ordinality
           as x(tenant, id, job, job_version, queue, priority, input, options, key, tags, trace,
                metadata, enqueued_by, at, delay, expires_in, expires_at, deadline_in, deadline_at, n)
     where v_passed = '{}' or not x.n = any (v_passed)
  ), fresh as (
    insert into windlass.runs (tenant, id, job, job_version, queue, priority, input, options, key,
                               tags, trace, metadata, enqueued_by, created_at, scheduled_for,
                               expires_at, deadline_at)
    select i.tenant, i.id, i.job, i.job_version, i.queue, i.priority, i.input, i.options, i.key,
           i.tags, i.trace, i.metadata, i.enqueued_by, v_now, i.due, i.expires_at, i.deadline_at
      from item i
     order by i.id, i.tenant  -- in one order for everybody: two may have the same ids
    on conflict do nothing
    returning tenant, id, job, queue, priority, input, tags, scheduled_for, expires_at,
              deadline_at
  ), made_ready as (
    insert into windlass.ready (tenant, id, job, queue, rank, ready_at,
                                attempt, failures, crash_count, token, seq, expires_at,
                                deadline_at)
    select f.tenant, f.id, f.job, f.queue, -f.priority, v_now, 0, 0, 0, 0, 1, f.expires_at,
           f.deadline_at
      from fresh f where f.scheduled_for <= v_now
  ), made_timers as (
    insert into windlass.timers (tenant, id, job, queue, rank, due_at, why,
                                 attempt, failures, crash_count, token, seq, expires_at,
                                 deadline_at)
    select f.tenant, f.id, f.job, f.queue, -f.priority, f.scheduled_for, 'delay',
           0, 0, 0, 0, 1, f.expires_at, f.deadline_at
      from fresh f where f.scheduled_for > v_now
  ), tagged as (
    insert into windlass.run_tags (tenant, tag, id)
    select distinct f.tenant, t.tag, f.id
      from fresh f cross join lateral unnest(f.tags) as t(tag)
     where f.tags is not null
  ), logged as (
    insert into windlass.event_rows (tenant, subject, seq, type, at, attempt, data)
    select f.tenant, f.id, 1, 'run.enqueued', v_now, 0, '{"why": "delay"}'::json
      from fresh f where f.scheduled_for > v_now
  ), paged as (
    insert into windlass.pages (moment, at, seq, attempt, tenant, type, subjects)
    select windlass.page_moment(), v_now, 1, 0, f.tenant, 'run.enqueued', array_agg(f.id)
      from (select f.tenant, f.id, row_number() over () as n from fresh f
             where f.scheduled_for <= v_now) f
     group by f.tenant, (f.n - 1) / 1000  -- whoever reads a page reads all of it
  )
  select array_agg(f.tenant), array_agg(f.id), array_agg(f.input)
    into v_tenants, v_ids, v_inputs
    from fresh f;
  -- Afterwards, and all at once: what is refused here undoes the rest.
  perform windlass.check_json('input', v_inputs);
  if exists (select 1 from unnest(v_inputs) as i(input) where i.input::text = 'null') then
    -- Of a record, JSON's null is no value; of a run, it is an input like any other. Only the
    -- items themselves tell which of them have none.
    update windlass.runs r set input = windlass.default_input(r.tenant, r.job)
      from (select coalesce(e.item ->> 'tenant', 'default') as tenant, (e.item ->> 'id')::uuid as id
              from json_array_elements(p_runs) as e(item) where e.item -> 'input' is null) i
     where r.tenant = i.tenant and r.id = i.id
       and (i.tenant, i.id) in (select * from unnest(v_tenants, v_ids));
  end if;

  if position('"after"' in p_runs::text) > 0 then  -- perhaps only in an input
    perform windlass.hold_followers(p_runs, v_tenants, v_ids, v_now);
  end if;
  if coalesce(cardinality(v_ids), 0) < json_array_length(p_runs) then
    select json_agg(json_build_object('n', y.n, 'run', coalesce(y.owner, y.id), 'status', k.status,
                                      'created_at', k.created_at,
                                      'scheduled_for', k.scheduled_for) order by y.n)
      into v_existing
      from (select x.n, x.id, coalesce(x.tenant, 'default') as tenant, o.owner,
                   row_number() over (partition by coalesce(x.tenant, 'default'), x.id,
                                                   o.owner is null order by x.n) as nth
              from rows from (json_to_recordset(p_runs) as (tenant text, id uuid)) with ordinality
                   as x(tenant, id, n)
              left join unnest(v_passed, v_owners) as o(n, owner) on o.n = x.n) y
      left join lateral windlass.known_run(y.tenant, coalesce(y.owner, y.id)) k on true
     where y.owner is not null
        or y.nth > 1  -- the same id again, in this batch
        or not exists (select 1 from unnest(v_tenants, v_ids) as f(tenant, id)
                        where f.tenant = y.tenant and f.id = y.id);
  end if;
  return json_build_object('now', v_now, 'existing', v_existing);
end
$$;
