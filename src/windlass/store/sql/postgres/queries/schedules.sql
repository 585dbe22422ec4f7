-- What the Python store says of schedules. A schedule is named by its id or, where that is null,
-- by its key.

-- name: put_schedules
select what, schedule::text from windlass.put_schedules(%s::json) order by n

-- name: get_schedule
select windlass.json_text(s) from windlass.schedules s where s.tenant = %s and s.id = %s::uuid

-- name: get_schedule_by_key
select windlass.json_text(s) from windlass.schedules s where s.tenant = %s and s.key = %s

-- name: list_schedules
select windlass.json_text(s)
  from windlass.schedules s
 where s.tenant = %s and (%s::text is null or s.job = %s)
   and (%s::boolean is null or s.enabled = %s) and (%s::text is null or s.origin = %s)
   and (%s::uuid is null or s.id < %s::uuid)
 order by s.id desc limit %s

-- name: enable_schedule
select windlass.enable_schedule(%s, %s::uuid, %s, %s, %s::timestamptz, %s::bigint)::text

-- name: delete_schedule
select windlass.delete_schedule(%s, %s::uuid, %s, %s)

-- name: forget_slots
select windlass.forget_slots(%s)

-- name: due_schedules
select windlass.due_schedules(%s)::text

-- name: coming_schedules
select json_build_object('now', windlass.now(),
                         'rows', coalesce(json_agg(windlass.json_text(c)::json), '[]'))::text
  from (select * from windlass.schedules s
         where s.enabled and s.next_slot is not null and (s.tenant, s.id) > (%s, %s::uuid)
         order by s.tenant, s.id limit %s) c

-- name: fire_schedules
select windlass.fire_schedules(%s::json, %s)::text

-- name: release_waiting
select windlass.release_waiting(%s)::text

-- name: list_slots
select windlass.json_text(k)
  from (select k.slot, k.outcome, k.at, k.run from windlass.schedule_slots k
         where k.tenant = %s
           and k.schedule = (select s.id from windlass.schedules s
                              where s.tenant = %s
                                and s.id = coalesce(%s::uuid, (select n.id
                                                                 from windlass.schedules n
                                                                where n.tenant = %s and n.key = %s)))
           and k.slot < coalesce(%s::timestamptz, 'infinity')
         order by k.slot desc limit %s) k
