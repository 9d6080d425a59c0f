"""Formats whose messages say what became of rows, as programs of change data capture write them.

Open `envelopes.py` first: what they share.
"""
