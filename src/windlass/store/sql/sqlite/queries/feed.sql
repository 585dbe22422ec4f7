-- The feed: pages in the order in which they were committed.

-- name: feed_sizes
-- The pages from a place on, and how many events each has: there are no more pages than events.
select n, length(subjects) / 16 from pages
 where n >= :n and era = :era
 order by n limit :limit

-- name: feed_page
-- A part of a page, and no more: it may have a hundred thousand events.
select era, n, :seen, tenant, type, at, seq, attempt,
       substr(subjects, 16 * :seen + 1, 16 * :taken), data
  from pages where n = :n
