"""SQL's values in Arrow's columns: decimals, the calendar, nested values, and casts from each type to the others.

- `evaluation.py`: a call, the kernel that computes it, and constants among its arguments. Open it first.
- `casts.py`: CAST; `printing.py`: values as text; `time_texts.py`: texts as times, and Java's patterns;
  `written_times.py`: times as texts by them.
- `decimals.py`, `nested.py`, `calendar.py`: arithmetic of decimals, lists and maps, days.
"""
