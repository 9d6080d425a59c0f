"""The sink that writes rows to standard output. Open `sink.py`."""
