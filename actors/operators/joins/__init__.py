"""Joins: of two inputs in one window, and of rows near each other in time.

Open `window_operator.py` or `interval_operator.py`. `general_window_operator.py` joins in windows of any kind.
"""
