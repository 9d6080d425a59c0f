"""Arrow and numpy for all of the runtime: whole columns are taken, sorted, cast, measured, hashed and spilled here.

- `take.py`: rows at given indices; `ranges.py`: ranges of indices, expanded.
- `ordering.py`: integers sorted, made distinct and matched.
- `casting.py`: columns in types that Arrow's kernels take, and back.
- `large_columns.py`: columns of more than 2 GiB of text or bytes, which one Arrow array cannot hold.
- `row_sizes.py`: bytes of each row.
- `text_words.py`: texts as 64-bit words, for hashing and comparing.
- `spilling.py`: batches in a file of this process.

Open `take.py` first. How the key of a row is hashed and numbered is in `actors.keys`; conversions between Arrow and
numpy that `flinkray` needs too are in `flinkray.batches.numpy_arrays`. Imports nothing else of `actors`.
"""
