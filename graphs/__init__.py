"""The compiler: program -> StreamGraph -> JobGraph -> ExecutionGraph. Values in, values out.

Open `stream_graph.py`, `job_graph.py` and `execution_graph.py` for the graphs, `compiler` for how they are made, and
`passes` for what is decided in between. `states.py` has the state tables of tasks and jobs, `render.py` draws each
graph. Imports only `flinkray`.
"""
