"""Types and the values that have them: a stream's record type, rows, keys, output tags, `Types`.

Open `records.py` first: `RecordType` and `Kind` say what the records of a stream are. `value_types.py` finds the Arrow
type that holds given Python values exactly. Imports only `flinkray.errors`.
"""
