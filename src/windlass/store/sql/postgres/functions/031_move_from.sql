-- A position as the beginning of a move (see windlass.make_moves), by the table that it was taken from.
create or replace function windlass.move_from_ready(p_from windlass.ready, p_verb text)
returns windlass.move
language sql immutable parallel safe
return row((p_from).tenant, (p_from).id, (p_from).job, (p_from).queue, (p_from).rank,
           (p_from).attempt, (p_from).failures, (p_from).crash_count, (p_from).token, (p_from).seq,
           (p_from).expires_at, (p_from).deadline_at,
           'queued', (p_from).ready_at, null, null, null, null, null,
           p_verb, false, false, null,
           null, null, null, null, null,
           null, null, null)::windlass.move;

create or replace function windlass.move_from_timer(p_from windlass.timers, p_verb text)
returns windlass.move
language sql immutable parallel safe
return row((p_from).tenant, (p_from).id, (p_from).job, (p_from).queue, (p_from).rank,
           (p_from).attempt, (p_from).failures, (p_from).crash_count, (p_from).token, (p_from).seq,
           (p_from).expires_at, (p_from).deadline_at,
           windlass.timer_status((p_from).why),
           (p_from).due_at, (p_from).why, null, null, null, null,
           p_verb, false, false, null,
           null, null, null, null, null,
           (p_from).waits, (p_from).was_why, (p_from).was_due_at)::windlass.move;

-- A run that was claimed once has started in time: it expires no more. An attempt that the store ends
-- because its time is over counts as a failure.
create or replace function windlass.move_from_lease(p_from windlass.leases, p_verb text)
returns windlass.move
language sql immutable parallel safe
return row((p_from).tenant, (p_from).id, (p_from).job, (p_from).queue, (p_from).rank,
           (p_from).attempt, (p_from).failures, (p_from).crash_count, (p_from).token, (p_from).seq,
           null, (p_from).deadline_at,
           'running', null, null, (p_from).worker_no, (p_from).started_at,
           (p_from).started_seq, (p_from).intent,
           p_verb, windlass.attempt_of(p_verb) = 'timeout', false, null,
           null, (p_from).reason, null, null, null,
           null, null, null)::windlass.move;
