"""Tables of Delta Lake as sources and sinks, through the package deltalake, which comes with `flinkray[delta]`.

Open `source.py` and `sink.py` first. `tables.py` opens tables, `data_files.py` writes their files, `commits.py` adds
these, `log.py` finds files in a table's log, `reader.py` reads them. Imports `flinkray.connectors.lake` and `files`.
"""
