"""What bounds and paces the exchange: buffers, credits, availability, debloating. Pure.

Open `credit.py` first; `buffers.py` coalesces small batches, `debloating.py` says how many rows a buffer should have.
Imports nothing of the rest of the network.
"""
