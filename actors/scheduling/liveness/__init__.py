"""Who is alive and has heard what: heartbeats, registration at a ResourceManager, and messages that were lost.

Open `heartbeats.py` first. `registration.py` repeats a registration until it is answered, `lost_messages.py` what did
not reach its receiver, and `release.py` the release of all workers at the end. The five endpoints are made of these.
Imports only `actors.protocol`.
"""
