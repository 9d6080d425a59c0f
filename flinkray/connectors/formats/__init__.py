"""Formats: columns as text and back, whole columns at a time.

Open `json_lines.py` first, which has what JSON makes of every type; `nested_columns.py` takes columns of lists, maps
and structs apart for it. How files are cut into splits is in `flinkray.connectors.files`. Imports `flinkray.types`.
"""
