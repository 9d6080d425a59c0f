"""Arrow and numpy for all of the runtime: to take rows, order, cast, weigh and hash them, whole columns at a time.

- `take.py`: rows at given indices; `ranges.py`: ranges of indices spelled out.
- `ordering.py`: integers in order.
- `casting.py`: columns in types that Arrow's kernels take, and back.
- `large_columns.py`: columns of more than 2 GiB of text or bytes.
- `row_sizes.py`: bytes per row.
- `text_words.py`: texts as 64-bit words, for hashing and comparing.
- `spilling.py`: batches in a file of this process.

How the key of a row is hashed and numbered is in `actors.keys`. Imports nothing else of `actors`.
"""
