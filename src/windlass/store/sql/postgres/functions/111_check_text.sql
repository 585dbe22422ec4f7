-- Texts as Python takes them. The first three go into one index together: with a tenant of 100
-- bytes, a job of 200 characters (800 bytes) and a key of 1,000 bytes its entry always fits.
create or replace function windlass.check_key(p_of text, p_key text) returns text
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if octet_length(convert_to(p_key, 'UTF8')) not between 1 and 1000 then
    perform windlass.refuse(p_of, 'key', 'is not a text of 1 to 1000 bytes in UTF-8');
  end if;
  return p_key;
end
$$;

create or replace function windlass.check_tenant(p_of text, p_tenant text) returns text
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if p_tenant !~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$' then
    perform windlass.refuse(p_of, 'tenant', 'is not a name of at most 100 letters, digits, '
                                            '''_'', ''.'' and ''-''');
  end if;
  return p_tenant;
end
$$;

-- What cannot be a name is the name of no job (WL006), whether or not anybody looks for the job.
create or replace function windlass.check_job(p_job text) returns text
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if windlass.is_name(p_job) is not true then
    raise exception 'there is no job %', left(p_job, 100)
      using errcode = 'WL006', detail = json_build_array(coalesce(left(p_job, 100), ''))::text;
  end if;
  return p_job;
end
$$;

create or replace function windlass.check_words(
  p_of text, p_argument text, p_text text, p_longest integer
) returns text
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if length(p_text) > p_longest then
    perform windlass.refuse(p_of, p_argument, format('has more than %s characters', p_longest));
  end if;
  return p_text;
end
$$;
