"""Tables of Apache Iceberg as sources and sinks, through PyIceberg, which comes with `flinkray[iceberg]`.

Open `source.py` and `sink.py` first. `tables.py` opens tables, `partitions.py` says how they are partitioned,
`data_files.py` writes their files, `commits.py` adds these, `log.py` finds files in a table's snapshots, `reader.py`
reads them. Imports `flinkray.connectors.lake` and `files`.
"""
