"""Attempts in child processes: how a job is found there, and the program that runs it.

`python -m windlass.isolation FD` is the program; workers start it (`windlass.engine.children`).
"""
