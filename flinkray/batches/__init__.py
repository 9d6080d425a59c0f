"""Arrow record batches: the unit of flow, and the way between columns and the Python values that functions see.

Open `batch.py` first. `row_codec.py` makes values of columns and columns of values, `value_columns.py` does it for one
column, and `wire_format.py` writes a batch for another process. Imports `flinkray.types` and errors.
"""
