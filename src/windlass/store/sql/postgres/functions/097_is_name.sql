-- Whether it can be the name of a job or a queue, as domain/job.py has it: 1 to 200 characters,
-- without spaces, commas and control characters. They are spelled out, because what [[:space:]]
-- means depends on the collation; the length apart, because a regex that counts is twenty times as
-- slow. Its names are resolved here and now, so it needs no search_path.
create or replace function windlass.is_name(p_text text) returns boolean
language sql immutable
return length(p_text) <= 200
       and p_text ~ ('^[^,\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f'
                     '\u3000]+$');
