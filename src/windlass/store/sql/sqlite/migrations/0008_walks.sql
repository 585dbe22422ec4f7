-- A claim is told whose turn it is, and tells how far it looked into a queue; there is nothing to
-- change here, where operations are not functions of the database.

select 1;
