"""Whose the schema is: its functions run with the rights of whoever migrated it.

So nobody else may have a hand in it. Whoever owns the schema, or may create things in it, can put
an operator or a function there that fits better than PostgreSQL's own, and ours would call it;
whoever owns a table can hang a trigger on it. A schema that was there before us may be a trap.

- The schema belongs to the role that migrates, or to a role for owning things that this one is a
  member of: nobody logs in as that, and the migration then acts as that role. A superuser is a
  member of every role, so for a superuser the second does not count: it has to name the role itself
  (``options=-c role=…`` in the URL).
- Everything in the schema belongs to its owner. What others may create there, they may no longer.
- A schema that is not there is made, never taken: if somebody makes it in between, we fail.
"""

from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg import sql

from windlass.errors import StoreError
from windlass.store.postgres.naming import execute_as_it_is
from windlass.store.queries import load_queries

_SQL = load_queries("postgres")


def take_schema(conn: psycopg.Connection[Any], schema: str) -> None:
    """Make the schema, or act as its owner from here to the end of the transaction.

    Raises StoreError where it is not ours.
    """
    found = conn.execute(_SQL["schema_owner"]).fetchone()
    if found is None:
        conn.execute(_SQL["create_schema"])
        return
    owner, us, is_ours, may_act = found
    if not is_ours:
        if not may_act:
            raise _not_ours(schema, owner, us)
        try:
            conn.execute(sql.SQL("set local role {}").format(sql.Identifier(owner)))
        except pg.InsufficientPrivilege as problem:
            raise _not_ours(schema, owner, us) from problem
    check_contents(conn, schema)
    for (statement,) in conn.execute(_SQL["revoke_create"]).fetchall():
        execute_as_it_is(conn, statement)


def check_contents(conn: psycopg.Connection[Any], schema: str) -> None:
    """Raise StoreError if anything in the schema is another's than the schema's owner's."""
    for what, owner, ours in conn.execute(_SQL["foreign_objects"]).fetchall():
        raise StoreError(
            f"The {what} belongs to {owner} and the schema {schema} to {ours}: drop it, or change "
            f"its owner to {ours}, and migrate again."
        )


def _not_ours(schema: str, owner: str, us: str) -> StoreError:
    return StoreError(
        f"The schema {schema} belongs to {owner}, whose code would run with the rights of {us}: "
        f"migrate as {owner}, or drop the schema if it is not Windlass's."
    )
