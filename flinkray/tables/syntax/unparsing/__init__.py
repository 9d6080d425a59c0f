"""Writing: a tree to text that is read as the same tree. Names stand in backticks, as Flink writes them."""
