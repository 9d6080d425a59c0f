"""Connections between slots: what one slot sends and receives for all its channels, on one loop.

Open `environment.py` first, then `sender.py` and `receiver.py`.
"""
