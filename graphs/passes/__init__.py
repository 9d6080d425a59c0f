"""Rewrites of the graph, one per module."""
