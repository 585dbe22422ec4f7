"""Durable jobs for Python, from one SQLite file to a fleet on PostgreSQL."""
