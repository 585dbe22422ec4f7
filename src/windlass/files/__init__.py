"""Job files: one job per file of a folder, found, loaded, and loaded again while you type."""
