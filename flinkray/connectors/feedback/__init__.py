"""The edge of an iteration that leads back (Flink's iteration head and tail). Open `feedback.py`."""
