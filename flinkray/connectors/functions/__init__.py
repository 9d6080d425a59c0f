"""Users' functions as sources and sinks (`add_source`, `add_sink`).

Open `generator_function.py` first. The function runs on a thread of its own; `handover.py` brings its values to the
task's thread.
"""
