"""What is checked while a program is written, so that a mistake is an error at the line that makes it.

Open `known_types.py` first: what is known of a stream's records before any of them has come. The others check what
users hand to operations: `functions.py`, `columns.py`, `windows.py`, `joins.py`. Imports
`flinkray.transformations` and rooms below it, and no stream class.
"""
