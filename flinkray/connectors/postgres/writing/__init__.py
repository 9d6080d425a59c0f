"""Rows on their way into a table of PostgreSQL.

Open `sink.py` first, then `writers.py`, which has a writer for each guarantee, and `commits.py`, which makes rows
visible once. `target.py` says what the table is, `ways.py` how values get into its columns, `values.py` which ones are
refused, and `rows.py` does all of it for the rows of one schema, through the tables of `staging.py` where the server
has to convert them. `trials.py` has the server look at rows before a checkpoint has them. Imports
`flinkray.connectors.postgres`.
"""
