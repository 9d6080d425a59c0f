"""What tables of a lake share: files that subtasks write, and that one committer adds to the table once per checkpoint.

Open `source.py` and `sink.py` first, the bases of those of a lake, then `writer.py` and `commits.py`. `columns.py` has
rows fit the columns of a table, `enumerator.py` finds the files that are to be read. Imports `flinkray.connectors` and
its `files`.
"""
