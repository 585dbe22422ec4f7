"""One program per peer. Each runs in the environment of its peer and needs nothing else."""
