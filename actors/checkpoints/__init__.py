"""Checkpoints: what is written, where, by whose order, and how a job goes on from it."""
