"""A source of whole numbers. Open `source.py`."""
