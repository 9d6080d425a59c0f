"""What a statement has that cannot be executed yet, and where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flinkray.errors import SqlUnsupportedError
from flinkray.tables.functions.registry import FUNCTIONS
from flinkray.tables.functions.signatures import FunctionKind
from flinkray.tables.lowering.contract import Unexecutable
from flinkray.tables.plans import nodes
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.syntax import expressions as words
from flinkray.tables.syntax import queries as syntax
from flinkray.tables.syntax.nodes import Node

_GROUPS = (nodes.Aggregate, nodes.Distinct)
_HINTED = (nodes.Scan, nodes.TemporalJoin)
_RANKS = (nodes.Window, nodes.Rank, nodes.Deduplicate)
_OF_TABLES = (nodes.WindowTableFunction, nodes.KindsOfColumn)
_JOINS = (nodes.Join, nodes.TemporalJoin, nodes.Correlate, nodes.TableFunctionCall)


def refusal(error: Unexecutable, statement: Node, sql: str) -> SqlUnsupportedError:
    """The error that says that a node of a statement's plan cannot be executed yet, and shows what it comes from."""
    for node in _nodes(statement):
        for kinds, what, place in _meanings(node):
            if isinstance(error.plan, kinds) and _is_of(error.plan, node):
                return _error(what, error.reason, place, sql)
    return _error(f"a plan with {type(error.plan).__name__}", error.reason, statement, sql)


def _is_of(plan: Plan, node: Node) -> bool:
    """Whether a node of a statement may be what a plan comes from, beside its kind."""
    if isinstance(plan, nodes.Scan) and isinstance(node, syntax.TableReference):
        return plan.table.path[2] == node.path.texts[-1]
    if isinstance(plan, _HINTED) and plan.hints:
        return isinstance(node, syntax.Hint)
    if not isinstance(plan, nodes.Aggregate) or plan.keys:
        return True
    functions = {call.function for call in plan.calls}
    return isinstance(node, words.Call) and node.function.texts[-1].upper() in functions


def _error(what: str, reason: str, place: Node, sql: str) -> SqlUnsupportedError:
    message = f"{what}: {reason}" if reason else f"{what} cannot be executed yet"
    return SqlUnsupportedError(message, sql, place.span.start, place.span.end)


def _nodes(value: Any) -> Iterator[Node]:
    """All nodes of a statement, those around others first."""
    if isinstance(value, tuple):
        for each in value:
            yield from _nodes(each)
    elif isinstance(value, Node):
        yield value
        for name in value.__struct_fields__:
            yield from _nodes(getattr(value, name))


def _meanings(node: Node) -> Iterator[tuple[tuple[type[Plan], ...], str, Node]]:
    """Of which nodes of plans a node of a statement may be the cause, what it is called, and its place."""
    match node:
        case syntax.Select(group_by=(first, *_)):
            yield _GROUPS, "GROUP BY", first
        case syntax.Select(distinct=True):
            yield _GROUPS, "SELECT DISTINCT", node
        case syntax.SetOperation(kind="UNION", all=False):
            yield _GROUPS, "UNION without ALL", node.right
        case syntax.Hint(name=name):
            yield _HINTED, f"the hint {name}", node
        case syntax.TableReference(path=path, hints=()):
            yield (nodes.Scan,), f"the table {path.texts[-1]}", node
        case syntax.MatchRecognize():
            yield (nodes.Match,), "this pattern", node
        case syntax.Join():
            yield _JOINS, "this kind of join", node.right
        case words.Exists() | words.InQuery() | words.Quantified() | words.Subquery() | words.CollectionOfQuery():
            yield (nodes.Filter, nodes.Project, *_JOINS), "a query in an expression", node
        case syntax.TableFunction(call=call):
            yield (*_OF_TABLES, *_JOINS), f"the table function {call.function.texts[-1]}", node
        case words.Call(over=over) if over is not None:
            yield _RANKS, "a call OVER a window", node
        case words.Call(function=function) if _is_aggregate(function.texts[-1]):
            yield _GROUPS, f"the aggregate {function.texts[-1]}", node
        case words.Query(order_by=(first, *_)):
            yield (nodes.Sort,), "ORDER BY", first
    if isinstance(node, words.Query) and (node.limit or node.offset):
        limit, offset = ("LIMIT", node.limit), ("OFFSET", node.offset)
        yield from (((nodes.Limit,), what, place) for what, place in (limit, offset) if place is not None)


def _is_aggregate(name: str) -> bool:
    function = FUNCTIONS.get(name.upper())
    return function is not None and function.kind is FunctionKind.AGGREGATE
