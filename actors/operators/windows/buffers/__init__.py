"""Rows that windows and joins keep in columns until they fire.

Open `row_buffer.py` first: sorted runs of rows by slice. `window_lookup.py` finds the rows of many windows in them,
`firing_batches.py` says which windows are put together at a time.
"""
