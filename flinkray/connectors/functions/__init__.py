"""Users' functions as sources and sinks (`add_source`, `add_sink`).

Open `source.py` first. The function runs on a thread of its own; `collector.py` is that thread's side of the
`Handover` to the task's thread. Imports the connectors' contracts and `flinkray.functions`.
"""
