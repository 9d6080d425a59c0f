"""The host for simulations: a whole cluster in one thread, under a seed and a virtual clock, with faults.

Open `host.py` first. `schedule.py` chooses what happens next, `process.py` is an endpoint with its loops and timers,
`mail.py` messages under way, `faults.py` what may go wrong, and `storage.py` a file system in memory. May import the
rest of `actors.hosts`, and `actors.protocol`.
"""
