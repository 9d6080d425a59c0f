"""Files as a source, whose formats cut them into splits (Parquet by row groups), and as a sink that commits.

Open `source.py` or `sink.py` first. `formats.py` cuts a file into splits and reads them, `small_files.py` reads several
files as one split, `monitoring.py` finds those that appear later, `partitions.py` has the columns in the names of
directories, `row_groups.py` makes row groups of batches, `commits.py` makes written files visible once. Imports
`flinkray.connectors.formats` and the contracts.
"""
