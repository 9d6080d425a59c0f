"""flinkray: the public API."""
