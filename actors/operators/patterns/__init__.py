"""Patterns of events matched: the automaton of a pattern, and what each key has of it (after Flink's CEP library).

Open `matcher.py` first: a batch of events in order, matches out. `automaton.py` has states and the moves between them,
`compiler.py` makes them of a pattern, `steps.py` moves one key by one event, `stored.py` puts what keys have into
snapshots. `operator.py` is the operator of streams, `waiting.py` the rows whose time has not come; the operator of SQL
is in `actors.operators.tables.matches`.
"""
