"""Creates the keyed state of an operator, in the state backend that the job is configured with."""

from __future__ import annotations

from actors.operators.contract.operator import OperatorContext, label_of
from actors.state.hashmap.backend import HashMapKeyedStateBackend
from actors.state.keyed.backend import KeyedStateBackend
from actors.state.rocksdb.backend import RocksDbKeyedStateBackend
from actors.state.rocksdb.store import load_rocksdict


def create_keyed_state(context: OperatorContext, prefix: str = "") -> KeyedStateBackend:
    """An empty backend for the key groups of an operator's subtask (state.backend.type says which).

    Args:
        prefix: begins the names of the backend's parts in a snapshot, where an operator has several backends.

    Raises:
        MissingDependencyError: the backend's package is not installed.
    """
    where, options = label_of(context), context.state_options
    if options.backend == "rocksdb":
        load_rocksdict()
        return RocksDbKeyedStateBackend(where, context.key_group_range, prefix, context.clock, options)
    return HashMapKeyedStateBackend(where, context.key_group_range, prefix, context.clock, options)
