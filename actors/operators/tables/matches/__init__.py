"""Patterns of rows in SQL: MATCH_RECOGNIZE.

`operator.py` puts rows in their order and matches them, `reads.py` reads of the rows of matches what conditions and
measures are computed of, and `conditions.py` asks conditions that look at several rows. The automaton is that of
`actors.operators.patterns`.
"""
