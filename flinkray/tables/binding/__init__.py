"""Binding: what the names in a statement are, of which types its expressions are, and what it computes.

Open `binder.py` first. `queries` and `selects` bind queries, `relations` what is in FROM, `expressions` and `calls`
what is computed, over the columns that a `scope` has. An error names what the user wrote, with its place.
"""
