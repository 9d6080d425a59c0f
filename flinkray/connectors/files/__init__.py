"""Files as a source, whose formats cut them into splits (Parquet by row groups).

Open `source.py` first. `formats.py` has the contract of formats and most of them, `orc_files.py` and `avro_files.py`
two more, `known_formats.py` all by their names, `message_lines.py` those whose lines are messages. `small_files.py`
reads several files as one split, `monitoring.py` finds those that appear later, `row_groups.py` gathers rows for
Parquet files, `partitions.py` has the columns in the names of directories. The sink is in `writing`. Imports
`flinkray.connectors.formats` and the contracts.
"""
