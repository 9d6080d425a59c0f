"""Where endpoints live: on threads of one process (`local.py`), as Ray actors (`ray`), or in a `simulation`.

Open `runtime.py` first: an endpoint on threads, as the first two have it. `turns.py` lets no more tasks act than there
are cores, and `in_process.py` is what hosts of a single process share. May import `actors.protocol`, `actors.mailbox`
and `actors.tasks`.
"""
