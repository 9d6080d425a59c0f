"""`pyflink.common.input_dependency_constraint`."""

from __future__ import annotations

import enum

__all__ = ["InputDependencyConstraint"]


class InputDependencyConstraint(enum.Enum):
    """When a task of a bounded program could be scheduled; nothing in PyFlink 2 takes it any more."""

    ANY = 0
    ALL = 1
