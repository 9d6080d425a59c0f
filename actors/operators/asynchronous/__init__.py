"""Asynchronous calls per row (Flink's async I/O).

Open `operator.py` first. `queue.py` says what may be emitted next, `calls.py` and `event_loop.py` make the calls. May
import `actors.operators.functions` and `actors.mailbox`.
"""
