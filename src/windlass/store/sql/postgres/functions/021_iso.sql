-- An instant as events write it, whatever the session's time zone: 2026-01-31T03:00:00Z.
create or replace function windlass.iso(p_at timestamptz) returns text
language plpgsql stable
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_at timestamp := p_at at time zone 'UTC';
begin
  if v_at = date_trunc('second', v_at) then
    return to_char(v_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"');
  end if;
  return to_char(v_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
end
$$;
