"""Window operators, one room for each way to run windows.

Open `choice.py` first: it says which operator runs a window. `aligned`, `sessions` and `counts` work on columns;
`general` runs any assigner and trigger row by row; `buffers` keeps rows in columns; `user_functions` calls the user's
functions; `base` is what all share. Imports the rooms of aggregates, functions and time.
"""
