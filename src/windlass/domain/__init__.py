"""Pure rules of Windlass: no clock, no I/O, no database."""
