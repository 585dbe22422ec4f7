"""The PostgreSQL store: every mutation is a function in the database (``sql/postgres``)."""
