"""Lines of text from a TCP connection as a source. Open `source.py`."""
