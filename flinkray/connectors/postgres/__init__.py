"""PostgreSQL: tables and queries as sources, tables as sinks and as what rows look up.

Open `source.py` and `lookup.py` first, and `writing/sink.py`. `columns.py` says what columns are in Arrow, `splits.py`
what is read by whom, `reader.py` reads on a thread of its own. `connections.py` makes connections of ADBC and psycopg,
which come with `flinkray[postgres]`, and says what their errors mean. Imports `flinkray.connectors`.
"""
