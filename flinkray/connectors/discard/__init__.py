"""The sink that keeps nothing. Open `sink.py`."""
