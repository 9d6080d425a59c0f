"""Event time in the runtime: timestamps and watermarks from rows, the valve that combines channels, timers.

Open `timestamps.py`, `watermark_valve.py` or `timers.py`.
"""
