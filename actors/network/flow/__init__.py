"""What bounds the exchange: credits, and how many rows a buffer may have (debloating). Pure.

Open `credit.py` first; `buffers.py` coalesces small batches, `debloating.py` says how many rows a buffer should have.
Imports nothing of the rest of the network.
"""
