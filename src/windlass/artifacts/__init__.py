"""Artifacts: bytes that runs leave outside the database. `domain/artifact.py` has the protocol.

A `Shelf` is a place with the limits of an application; `flows.py` says what is done with it, once
for both kinds of handlers and for applications; `faces.py` has the methods of contexts.
"""
