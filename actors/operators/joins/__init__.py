"""Joins: of two inputs in one window, and of rows near each other in time.

Open `window_operator.py` for joins and co-groups in windows (`general_window_operator.py` has windows of any kind), or
`interval_operator.py` for interval joins, whose search for partners is `interval_partners.py`. What a program may say
of them, and the check of the bounds, is in `flinkray/streams/`. Imports the rooms of windows.
"""
