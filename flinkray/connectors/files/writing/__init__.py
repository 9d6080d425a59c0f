"""Files as a sink that commits.

Open `sink.py` first, and `writer.py`, which writes the files of one subtask: `open_files.py` has a class per format,
`buckets.py` says which directory rows go to, `commits.py` makes written files visible once. What one committer does for
all subtasks is in `global_commits.py`, with `compaction.py` and `partition_commit.py`. Imports
`flinkray.connectors.files`.
"""
