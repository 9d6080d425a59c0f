"""The identity of operators: equal programs give equal ids, on every machine, so that state finds its operator again.

After Flink's StreamGraphHasherV2: what counts is where an operator stands in the traversal, how many of its outputs
can be chained, and the ids of its inputs. Names, code and parallelism do not count (parallelism does only where it
changes what can be chained). A uid replaces all of it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping

from msgspec.structs import replace

from flinkray.errors import InvalidProgramError
from flinkray.types.records import OperatorId
from graphs.passes.chaining import is_chainable
from graphs.passes.plan import OperatorIds, Plan
from graphs.stream_graph import StreamGraph, StreamNode

HASH_BYTES = 16
"""Ids have 128 bits, as in Flink. Part of the savepoint format."""


def assign_operator_ids(plan: Plan) -> Plan:
    """Decides `operator_ids` of the plan.

    Raises:
        InvalidProgramError: two operators have the same uid or uid hash.
    """
    computed = _computed_ids(plan.graph)
    ids: dict[int, OperatorIds] = {}
    owners: dict[str, StreamNode] = {}
    for node_id, node in plan.graph.nodes.items():
        own = OperatorIds(computed[node_id])
        if node.uid_hash is not None and node.uid_hash.lower() != own.primary:
            own = OperatorIds(OperatorId(node.uid_hash.lower()), (own.primary,))
        owner = owners.setdefault(own.primary, node)
        if owner is not node:
            raise _collision(owner, node)
        ids[node_id] = own
    return replace(plan, operator_ids=ids)


def _collision(first: StreamNode, second: StreamNode) -> InvalidProgramError:
    names = f"operators {first.name!r} and {second.name!r}"
    if first.uid is not None and first.uid == second.uid:
        return InvalidProgramError(f"{names} have the same uid {first.uid!r}; give each operator a uid of its own")
    return InvalidProgramError(f"{names} get the same id {second.uid_hash}; give each operator a uid of its own")


def _computed_ids(graph: StreamGraph) -> dict[int, OperatorId]:
    """The id of each node, breadth first from the sources; a node whose inputs have no id yet is visited again
    later."""
    hashes: dict[int, bytes] = {}
    waiting = deque(sorted(node.id for node in graph.nodes.values() if not node.in_edges))
    met = set(waiting)
    while waiting:
        node = graph.nodes[waiting.popleft()]
        if any(edge.source not in hashes for edge in node.in_edges):
            # The input that is missing will put it back into the queue.
            met.discard(node.id)
            continue
        hashes[node.id] = _uid_hash(node.uid) if node.uid is not None else _position_hash(node, graph, hashes)
        for edge in node.out_edges:
            if edge.target not in met:
                met.add(edge.target)
                waiting.append(edge.target)
    return {node_id: OperatorId(digest.hex()) for node_id, digest in hashes.items()}


def _uid_hash(uid: str) -> bytes:
    return _digest(uid.encode())


def _position_hash(node: StreamNode, graph: StreamGraph, hashes: Mapping[int, bytes]) -> bytes:
    position = len(hashes).to_bytes(4, "big")
    chainable_outputs = sum(1 for edge in node.out_edges if is_chainable(edge, graph))
    digest = _digest(position * (1 + chainable_outputs))
    for edge in node.in_edges:
        digest = bytes((own * 37 % 256) ^ other for own, other in zip(digest, hashes[edge.source], strict=True))
    return digest


def _digest(data: bytes) -> bytes:
    # Flink takes murmur3, which Python's standard library does not have. Ids are not exchanged with Flink, so any
    # 128-bit hash that is the same everywhere will do.
    return hashlib.blake2b(data, digest_size=HASH_BYTES).digest()
