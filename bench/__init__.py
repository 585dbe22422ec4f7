"""Benchmarks: `make bench`. Compare ratios from one run; times of different runs say little."""
