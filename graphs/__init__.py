"""The compiler: program -> StreamGraph -> JobGraph -> ExecutionGraph. Values in, values out."""
