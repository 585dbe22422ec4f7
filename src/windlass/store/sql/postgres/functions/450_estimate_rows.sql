-- How many rows of a table belong to a tenant, and have a status if one is given: as the planner
-- estimates it, from what it knows of the table. It costs no more for a million rows than for ten.
-- Volatile, because EXPLAIN is refused in a function that is not.
create or replace function windlass.estimate_rows(
  p_table text, p_tenant text, p_status text default null
) returns bigint
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_plan json;
begin
  execute format('explain (format json) select from windlass.%I where tenant = %L%s',
                 p_table, p_tenant, case when p_status is not null
                                         then format(' and status = %L', p_status) end)
     into v_plan;
  return (v_plan -> 0 -> 'Plan' ->> 'Plan Rows')::numeric::bigint;
end
$$;
