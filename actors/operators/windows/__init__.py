"""Window operators, one package for each way to run windows.

Open `choice.py` first: it says which operator runs a window. `aligned`, `sessions` and `counts` work on columns;
`general` runs any assigner and trigger row by row; `buffers` keeps rows; `user_functions` calls the user.
"""
