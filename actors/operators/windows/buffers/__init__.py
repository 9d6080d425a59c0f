"""Rows that windows and joins buffer, in columns, until they fire.

Open `row_buffer.py` first, sorted runs of rows by slice, then `buffering_operator.py`, the base of operators that have
such buffers. `window_lookup.py` finds the rows of many windows in them, `firing_batches.py` says which windows fire in
one go, and `window_values.py` makes values for functions. Imports the rooms of columns, keys and windows' base.
"""
