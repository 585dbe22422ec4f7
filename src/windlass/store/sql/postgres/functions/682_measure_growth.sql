-- How many bytes the tables of Windlass have with their indexes, and when the oldest run of a tenant was made.
create or replace function windlass.measure_growth(
  p_tenant text, out bytes bigint, out reusable bigint, out oldest timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, windlass, pg_temp
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
  select coalesce(sum(pg_total_relation_size(c.oid)), 0), 0 into bytes, reusable
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
   where n.nspname = 'windlass' and c.relkind = 'r';
  select r.created_at into oldest from windlass.runs r
   where r.tenant = p_tenant order by r.tenant, r.id limit 1;
end
$$;
