"""What answers each route of `flinkray.rest.routes`: asks the masters, and puts what they say into Flink's shapes.

A handler has the name that its route has, takes a `Call` and gives the answer, or raises what `refusals.py` knows.
`jobs.py` is the one to open first.
"""
