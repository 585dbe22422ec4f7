"""The race of Windlass and its peers on one machine: `make bench-peers`. See bench/README.md."""
