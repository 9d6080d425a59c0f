"""A source that makes rows up, the same ones every time. Open `source.py`."""
