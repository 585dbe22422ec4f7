-- Wait until every claim is over that may not have seen a pause which is committed by now. Each claim has
-- this lock, shared, and never waits for it: while somebody waits here, no claim is granted it. So this waits
-- in short stretches, with time for claims in between, and gives up (55P03) after five seconds, if somebody
-- keeps the transaction of a claim open.
create or replace function windlass.settle_pauses() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, windlass, pg_temp
set lock_timeout = '500ms'
as $$
begin
  for n in 1 .. 6 loop
    begin
      perform pg_advisory_xact_lock(hashtextextended('windlass.pauses', 0));
      return;
    exception when lock_not_available then
      if n = 6 then
        raise;
      end if;
      perform pg_sleep(0.4);
    end;
  end loop;
end
$$;
