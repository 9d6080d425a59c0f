"""The figures of a task: rates, busy and back-pressured time, watermarks, latencies; and their export as metrics.

Open `figures.py` first. May import `actors.protocol`.
"""
