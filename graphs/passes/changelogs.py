"""Which streams are changelogs, whose rows update and delete earlier ones; and whether their consumers know that.

A changelog begins at a source or operator that says so, goes on through operators that keep the kinds of rows, and ends
where they become a column, or at a sink that accepts them. An operator that does not know kinds would count an update
as another row, so it is refused by name before anything runs.
"""

from __future__ import annotations

from msgspec.structs import replace

from flinkray.connectors.collect.sink import CollectSink
from flinkray.errors import InvalidProgramError, operator_label
from flinkray.transformations.operator_factories import AsyncFactory, ChangelogRole, SinkFactory, changelog_role
from graphs.passes.plan import Plan
from graphs.stream_graph import StreamEdge, StreamNode

_WAY_OUT = "kinds_as_column('op') before it gives inserts, with a column that says what each row does"


def infer_changelogs(plan: Plan) -> Plan:
    """Follows changelogs through the graph, and tells sinks whether they get one.

    Raises:
        InvalidProgramError: an operator gets a changelog that takes none (names it, where the changelog begins, and the
            way out), or in which changes of one row would change places.
    """
    beginnings: dict[int, str] = {}
    """Node whose output is a changelog -> the name of the operator where that begins."""
    sinks: list[int] = []
    takers: list[int] = []
    for node in plan.graph.nodes.values():  # inputs come before their consumers
        role = changelog_role(node.factory)
        changelogs = [edge for edge in node.in_edges if edge.source in beginnings and not _is_before(edge, plan)]
        beginning = beginnings[changelogs[0].source] if changelogs else None
        if beginning is not None and role in (ChangelogRole.REFUSES, ChangelogRole.BEGINS):
            raise InvalidProgramError(
                f"{operator_label(node.name)}: its input is a changelog, which begins at {beginning!r}, and "
                f"{_reason(node, role)}"
            )
        if changelogs:
            takers.append(node.id)
        for edge in changelogs:
            _refuse_respreading(edge, plan)
        if role is ChangelogRole.BEGINS:
            beginnings[node.id] = node.name
        elif role is ChangelogRole.MAKES:
            beginnings[node.id] = node.name if beginning is None else beginning
        elif beginning is not None and role is ChangelogRole.KEEPS:
            beginnings[node.id] = beginning
        elif beginning is not None and isinstance(node.factory, SinkFactory):
            sinks.append(node.id)
    return _with_takers(plan, takers, sinks) if takers else plan


def _is_before(edge: StreamEdge, plan: Plan) -> bool:
    """Whether it is a side output of where a changelog begins: what that could not read, which are inserts still."""
    begins = changelog_role(plan.graph.nodes[edge.source].factory) is ChangelogRole.BEGINS
    return begins and edge.output_tag is not None


def _reason(node: StreamNode, role: ChangelogRole) -> str:
    if role is ChangelogRole.BEGINS:
        return f"it makes one of inserts; leave it out, or {_WAY_OUT}"
    if isinstance(node.sink, CollectSink):
        return (
            "what collects a table takes inserts only: it would hold rows that were updated or deleted since. "
            "execute_and_collect() gives the changes; env.tables.from_changelog_stream(stream).to_pandas(), or "
            f"to_pandas() of env.tables.execute_sql(...), the rows that are left at the end; {_WAY_OUT}"
        )
    if node.sink is not None:
        return f"{type(node.sink).__name__} takes inserts only. Use a sink that accepts changelogs; or {_WAY_OUT}"
    if isinstance(node.factory, AsyncFactory):
        return f"one change of a row must not overtake another. Have ordered results (ordered=True); or {_WAY_OUT}"
    return f"it takes inserts only: it would take an update for another row. {_WAY_OUT}"


def _refuse_respreading(edge: StreamEdge, plan: Plan) -> None:
    """Round robin, the changes of one row would go several ways, and overtake each other. Whoever calls rebalance() may
    know that they do not: where a row is changed once, say."""
    source, target = plan.graph.nodes[edge.source], plan.graph.nodes[edge.target]
    if edge.is_respread and target.parallelism > 1:
        raise InvalidProgramError(
            f"{operator_label(target.name)} has parallelism {target.parallelism} and gets a changelog from "
            f"{source.name!r}, which has {source.parallelism}: changes of one row would go to several subtasks, and "
            "overtake each other. Before it, key_by(...) what tells rows apart; or set_parallelism "
            f"{source.parallelism}"
        )


def _with_takers(plan: Plan, takers: list[int], sinks: list[int]) -> Plan:
    graph = plan.graph.copy()
    for node_id in takers:
        graph.nodes[node_id].is_changelog_input = True
    for node_id in sinks:
        node = graph.nodes[node_id]
        assert isinstance(node.factory, SinkFactory)
        node.factory = replace(node.factory, is_changelog=True)
    return replace(plan, graph=graph)
