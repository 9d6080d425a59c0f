"""Endpoints as Ray actors: the only package that imports ray, beside actors.spark."""
