"""Tasks: a chain of operators with its inputs and outputs, in one thread driven by a mailbox.

Open `stream_task.py` first: a task's life. `wiring.py` sets up inputs and outputs as the deployment says; `memory.py`
has the process keep the memory that it frees. The inner rooms are the `chain` of operators, `inputs`, `checkpoints` and
`metrics`. May import `actors.operators`, `actors.network`, `actors.mailbox`, `actors.checkpoints.storage` and what is
below these.
"""
