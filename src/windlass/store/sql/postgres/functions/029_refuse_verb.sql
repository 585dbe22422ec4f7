-- Raise WL002: what a verb asks for is not allowed from that status. Returns nothing, of any type that
-- an expression needs.
create or replace function windlass.refuse_verb(p_id uuid, p_status text, p_verb text)
returns text
language plpgsql volatile
set search_path = pg_catalog, windlass, pg_temp
as $$
begin
  raise exception 'run % is %: % is not possible', p_id, p_status, p_verb
    using errcode = 'WL002', detail = json_build_array(p_id, p_status, p_verb)::text;
end
$$;
