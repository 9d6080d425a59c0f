"""What bounds and paces the exchange: buffers, credits, availability, debloating. Pure.

Open `credit.py` first.
"""
