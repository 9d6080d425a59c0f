"""Where endpoints live: on threads of one process (`local.py`), as Ray actors (`ray`), or in a `simulation`.

Open `runtime.py` first: what threaded hosts share. `turns.py` lets no more tasks act than there are cores.
"""
