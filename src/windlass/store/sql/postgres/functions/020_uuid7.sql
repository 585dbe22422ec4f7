-- A UUIDv7 for callers that bring no id of their own: the time in the first 48 bits.
create or replace function windlass.uuid7() returns uuid
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
declare
  v_ms bigint := floor(extract(epoch from windlass.now()) * 1000);
  v_bytes bytea := uuid_send(gen_random_uuid());
begin
  v_bytes := overlay(v_bytes placing substring(int8send(v_ms) from 3) from 1 for 6);
  -- version 7: gen_random_uuid() has 4 (0100) in the upper half of byte 6
  v_bytes := set_bit(set_bit(v_bytes, 52, 1), 53, 1);
  return encode(v_bytes, 'hex')::uuid;
end
$$;
