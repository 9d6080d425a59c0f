"""The shapes of Flink's REST interface: what is answered, under which paths, and their description as OpenAPI.

`routes.py` is the table of all that is served; open it first. The other modules have the answers as Structs, with
Flink's names, by what they are about. Values only: nothing here knows a server, or asks anybody.
"""
