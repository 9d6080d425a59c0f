"""Figures of a task: rates, busy and back-pressured time, latencies; and how they reach the host's metrics.

Open `figures.py` first.
"""
