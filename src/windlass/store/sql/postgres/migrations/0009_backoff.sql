-- What backs off is found without reading what is scheduled.

create index timers_in_backoff on windlass.timers (job, queue) where why = 'backoff';
