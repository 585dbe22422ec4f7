-- A claim is told whose turn it is, and tells how far it looked into a queue: the functions, made
-- anew by their files, have other parameters and rows, and a program that calls them needs a
-- database that has them.

select 1;
