"""Which state backend an operator gets."""

from __future__ import annotations

from actors.operators.contract.operator import OperatorContext
from actors.state.hashmap.backend import HashMapKeyedState
from actors.state.keyed.backend import KeyedStateBackend
from actors.state.rocksdb.backend import RocksDbKeyedState
from actors.state.rocksdb.store import load_rocksdict


def create_keyed_state(context: OperatorContext, prefix: str = "") -> KeyedStateBackend:
    """Empty keyed state for the key groups of that subtask, in the backend that its options name.

    Args:
        prefix: keeps the names of parts of a snapshot apart, where an operator has several backends.
    Raises:
        MissingDependencyError: the backend's package is not installed.
    """
    where = f"operator {context.operator_name!r} (subtask {context.subtask})"
    if context.state_options.backend == "rocksdb":
        load_rocksdict()
        return RocksDbKeyedState(where, context.key_group_range, prefix, context.clock, context.state_options)
    return HashMapKeyedState(where, context.key_group_range, prefix, context.clock)
