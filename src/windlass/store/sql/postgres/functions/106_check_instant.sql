-- An instant of the years 1 to 9999, as far as it is one in every zone: few clients know others, or
-- infinity.
create or replace function windlass.check_instant(
  p_of text, p_argument text, p_at timestamptz
) returns timestamptz
language plpgsql volatile strict
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  if p_at < '0001-01-01Z' or p_at >= '9999-12-31Z' then
    perform windlass.refuse(p_of, p_argument,
                            'is not a time from the year 1 to the last day but one of 9999');
  end if;
  return p_at;
end
$$;
