"""The two steps of the compiler: a program becomes a StreamGraph, and a StreamGraph a JobGraph.

Open `stream_graph_generator.py` first, then `job_graph_generator.py`. `planner.py` makes the graphs that are asked for
as text; `graphs/render.py` draws them. The graphs themselves are in `graphs`, and what is decided between the two steps
in `graphs.passes`, which are below this.
"""
