"""Tasks: a chain of operators with its inputs and outputs, driven by a mailbox.

Open `stream_task.py` first: a task's life. `wiring.py` sets up what its deployment says.
"""
