"""Formats: rows as messages of bytes and back, and columns as text, whole columns at a time.

Open `message_format.py` first, the contract, then one of them: `json.py`, `csv.py`, `avro.py` (with `avro_types.py`,
and `schema_registry.py` for numbered schemas), `protobuf.py` (with `protobuf_types.py`) and `raw.py`; those of changes
are in `changes`. `json_lines.py` has what JSON makes of every type, for messages and for files, and `json_values.py`
values of another type than their column; `nested_columns.py` takes columns of lists, maps and structs apart for it. How
files are cut into splits is in `flinkray.connectors.files`. Imports `flinkray.types`, `flinkray.batches`,
`flinkray.functions` and `flinkray.extras`.
"""
