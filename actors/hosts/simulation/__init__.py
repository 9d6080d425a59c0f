"""The host for simulations: one thread, a seed, a virtual clock, and faults. Open `host.py` first."""
