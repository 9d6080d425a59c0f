"""A source of generated rows, the same ones every time. Open `source.py`."""
