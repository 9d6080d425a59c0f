"""The host on Ray: each endpoint is a Ray actor. The only package that imports ray, beside actors.spark.

Open `host.py` first, then `actor.py`, and `transport.py`, which puts large messages between slots into Ray's object
store. `watches.py` and `lives.py` tell when an actor has died, `ownership.py` which actors end with the driver,
`termination.py` what SIGTERM does, `cluster.py` connects to Ray. May import `actors.hosts` and `actors.protocol`.
"""
