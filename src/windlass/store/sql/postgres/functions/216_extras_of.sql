-- What few runs have, and only their handlers ask for; null for most. Its names are resolved here and now,
-- so it needs no search_path, and costs its callers no call.
create or replace function windlass.extras_of(
  p_tags text[], p_key text, p_metadata json, p_enqueued_by uuid, p_scheduled_for timestamptz,
  p_ready_at timestamptz, p_links smallint
) returns json
language sql stable
return case
  when p_tags is not null or p_key is not null or p_metadata is not null
       or p_enqueued_by is not null or p_scheduled_for <> p_ready_at
  then json_build_object(
         'tags', p_tags, 'key', p_key, 'metadata', p_metadata, 'enqueued_by', p_enqueued_by,
         'is_child', coalesce(p_links & 1 = 1, false),
         'scheduled_for', case when p_scheduled_for <> p_ready_at
                               then windlass.iso(p_scheduled_for) end) end;
