-- The smallest UUIDv7 of an instant.
create or replace function windlass.id_at(p_at timestamptz) returns uuid
language plpgsql immutable strict
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  return (lpad(to_hex(greatest(0, floor(extract(epoch from p_at) * 1000))::bigint), 12, '0')
          || repeat('0', 20))::uuid;
end
$$;
