-- The name that a worker had, or has. Null where the number is.
create or replace function windlass.worker_name(p_worker_no integer) returns text
language sql stable parallel safe
return coalesce((select w.name from windlass.worker_names w where w.worker_no = p_worker_no),
                'worker ' || p_worker_no);
