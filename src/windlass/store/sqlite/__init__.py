"""The store in one SQLite file. apsw is imported here and nowhere else."""
