"""Who is alive: heartbeats, and registration at a ResourceManager that may be replaced. Open `heartbeats.py`."""
