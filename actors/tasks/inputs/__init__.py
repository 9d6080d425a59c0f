"""A task's inputs: one element at a time, fairly between inputs; sorted by key in batch mode.

Open `input_processor.py` first.
"""
