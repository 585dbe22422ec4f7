-- Whether a document needs to be judged, see windlass.judge_json. Nearly all are fine, and pay for a
-- few searches of their text: NUL and surrogates are written as escapes; whatever is too deep has
-- more than 100 brackets that open, and more than 200 bytes.
-- Numbers are looked at in a document that comes alone: in a batch that would cost a good part of
-- the insert, and one that is too large harms the reader of its own run only.
-- Its names are resolved here and now, so it needs no search_path, and costs its callers no call.
create or replace function windlass.needs_judging(p_text text, p_alone boolean) returns boolean
language sql immutable
return octet_length(p_text) > 1048576
       or (position(E'\\' in p_text) > 0 and position(E'\\u' in p_text) > 0)
       or (octet_length(p_text) > 200
           and octet_length(p_text)
               - octet_length(replace(replace(p_text, '[', ''), '{', '')) > 100)
       or (p_alone and p_text ~ '[0-9]{19}|[0-9][eE][+]?[0-9]{3}');
