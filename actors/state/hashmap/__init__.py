"""The hashmap backend: keyed state in Python dicts. Open `backend.py`."""
