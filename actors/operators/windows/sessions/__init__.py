"""Session windows: rows find the session that they join or merge, in columns.

Open `operator_base.py` first, then `store.py`. Whether a row merges sessions is arithmetic in `intervals.py`.
"""
