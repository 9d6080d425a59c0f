"""Formats: columns as text and back, whole columns at a time.

Open `json_lines.py` first. How files are cut into splits is in `flinkray.connectors.files`. Imports `flinkray.types`.
"""
