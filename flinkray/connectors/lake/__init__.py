"""What tables of a lake share: files that subtasks write, and that one committer adds to the table once per checkpoint.

Open `writer.py` and `commits.py` first. `columns.py` makes rows fit a table's columns, `enumerator.py` finds the files
that are to be read. Imports `flinkray.connectors` and its `files`.
"""
