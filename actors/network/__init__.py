"""The data exchange between tasks: partitions, gates, and credit-based connections between slots."""
