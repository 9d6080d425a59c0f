"""Endpoints as Ray actors: the only package that imports ray, beside actors.spark.

Open `host.py` first, then `actor.py` and `transport.py`.
"""
