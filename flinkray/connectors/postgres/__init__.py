"""PostgreSQL: tables and queries as sources, tables as sinks and as what rows look up.

Open `source.py`, `sink.py` and `lookup.py` first. `columns.py` says what columns are in Arrow, `splits.py` what is read
by whom, `reader.py` reads on a thread of its own. `target.py` says how rows get into a table, `writers.py` has a writer
for each guarantee, `commits.py` what makes rows visible once. `connections.py` makes connections of ADBC and psycopg,
which come with `flinkray[postgres]`, and says what their errors mean. Imports `flinkray.connectors`.
"""
