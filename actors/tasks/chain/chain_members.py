"""Loads the code of a chain's operators, and fuses neighbouring row functions into one operator."""

from __future__ import annotations

from msgspec import Struct

from actors.protocol.task_messages import TaskDeployment
from flinkray.errors import FlinkrayError
from flinkray.functions.interfaces import CheckpointedFunction
from flinkray.functions.python_path import WAYS_TO_BRING_MODULES, add_directories
from flinkray.persistence import loads
from graphs.job_graph import OperatorCode, OperatorConfig


class ChainMember(Struct, frozen=True):
    """One operator of the running chain: an operator of the graph, or several row functions in sequence."""

    configs: tuple[OperatorConfig, ...]
    codes: tuple[OperatorCode, ...]
    """The loaded code of each."""

    @property
    def first(self) -> OperatorConfig:
        """The operator of the graph that takes the input."""
        return self.configs[0]

    @property
    def last(self) -> OperatorConfig:
        """The operator of the graph that has the outputs."""
        return self.configs[-1]

    @property
    def name(self) -> str:
        return " -> ".join(config.name for config in self.configs)


def load_members(deployment: TaskDeployment) -> tuple[ChainMember, ...]:
    """The members of the chain, each behind those that feed it.

    Raises:
        FlinkrayError: the code of an operator cannot be loaded in this process; names task and operator.
    """
    add_directories(deployment.configuration)
    return fuse_row_functions(
        tuple(ChainMember((config,), (_load(config, deployment),)) for config in deployment.operators)
    )


def fuse_row_functions(members: tuple[ChainMember, ...]) -> tuple[ChainMember, ...]:
    """Fuses row functions whose only output is the next row function, so that rows become Python values only once.

    A function with state of its own is never fused into one before it, as its state is found by the id of the operator,
    which is that of the first function.
    """
    by_node = {member.first.node_id: member for member in members}
    fused: list[ChainMember] = []
    inner: set[int] = set()
    for member in members:
        if member.first.node_id in inner:
            continue
        while (node := _only_follower(member.last)) is not None:
            following = by_node[node]
            if not following.first.is_row_function or _has_state(following):
                break
            member = ChainMember(member.configs + following.configs, member.codes + following.codes)
            inner.add(node)
        fused.append(member)
    return tuple(fused)


def _only_follower(config: OperatorConfig) -> int | None:
    """The node that gets all rows of a row function, if no other node gets any."""
    if not config.is_row_function or config.network_outputs or len(config.chained_outputs) != 1:
        return None
    edge = config.chained_outputs[0]
    return None if edge.output_tag is not None else edge.target_node


def _has_state(member: ChainMember) -> bool:
    return isinstance(getattr(member.codes[0].factory, "function", None), CheckpointedFunction)


def _load(config: OperatorConfig, deployment: TaskDeployment) -> OperatorCode:
    try:
        code = loads(config.code_bytes)
    except Exception as error:
        raise FlinkrayError(
            f"task {deployment.task_name!r}: the code of operator {config.name!r} cannot be loaded "
            f"({type(error).__name__}: {error}); {WAYS_TO_BRING_MODULES}"
        ) from error
    if not isinstance(code, OperatorCode):
        raise FlinkrayError(f"task {deployment.task_name!r}: operator {config.name!r} carries {type(code).__name__}")
    return code
