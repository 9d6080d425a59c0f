"""How many subtasks each vertex of a running job needs for its load, after Flink's autoscaler. Pure."""
