-- Give leases of a worker back to their queues, each attempt marked interrupted; under a
-- cancel intent the run ends canceled. Leases that somebody is just finishing are left alone.
-- p_claim_no: only leases of claims up to this number; p_keep: never these leases. p_blamed: ends,
-- see windlass.finish, for those of them that are not merely interrupted.
create or replace function windlass.give_back(
  p_worker_no integer, p_claim_no bigint, p_keep_tenants text[], p_keep_ids uuid[],
  p_keep_tokens bigint[], p_blamed json default null
) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set lock_timeout = '500ms'
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_items json;
  v_lost integer;
begin
  with blamed as materialized (
    select b.item ->> 'tenant' as tenant, (b.item ->> 'id')::uuid as id,
           (b.item ->> 'token')::bigint as token, b.item
      from json_array_elements(p_blamed) as b(item)
  )
  select json_agg(coalesce(b.item, json_build_object('tenant', l.tenant, 'id', l.id,
                                                     'token', l.token, 'outcome', 'released')))
    into v_items
    from (select l.tenant, l.id, l.token
            from windlass.leases l
           where l.worker_no = p_worker_no and l.claim_no <= p_claim_no
             -- not a join, which could walk all leases; and no nulls, which would keep them all
             and (l.tenant, l.id, l.token) not in (
               select k.tenant, k.id, k.token
                 from unnest(p_keep_tenants, p_keep_ids, p_keep_tokens) as k(tenant, id, token)
                where (k.tenant, k.id, k.token) is not null)
             for update of l skip locked) l
    left join blamed b on b.tenant = l.tenant and b.id = l.id and b.token = l.token;
  if v_items is null then
    return 0;
  end if;
  select count(*) into v_lost from windlass.finish(v_items);
  return json_array_length(v_items) - v_lost;
end
$$;
