"""Settings of operators and environments, and what is known of a stream's records while a program is written.

Open `operator_settings.py` first: name, uid, parallelism, chaining, slots.
"""
