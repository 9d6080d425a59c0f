"""Fields of rows: taken out of them as far down as a plan allows.

A filter copies what it keeps, so whole rows above it cost much where some of their fields are read; and a source that
makes or decodes single fields is told which. After Flink's push-down of nested projections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from flinkray.tables.plans.expressions import (
    BoundExpression,
    Call,
    Column,
    FieldAccess,
    OuterColumn,
    Plan,
    Subquery,
    columns_of,
    walk,
    with_columns,
)
from flinkray.tables.plans.nodes import Filter, Project, Scan, WatermarkAssigner, unique_names
from flinkray.tables.plans.rules.rewriting import bottom_up, columns
from flinkray.tables.plans.tables import TablePath

_Leaf = Column | FieldAccess
"""A column that is read as it is, or a field of a row in one."""


def take_fields_early(plan: Plan) -> Plan:
    """The plan whose filters and watermarks have only those fields of rows that something above reads."""
    return bottom_up(plan, _early)


def _early(plan: Plan) -> Plan:
    if not isinstance(plan, Project):
        return plan
    between = plan.input
    below = between.input if isinstance(between, Filter) else between
    read = (*plan.expressions, *((between.condition,) if isinstance(between, Filter) else ()))
    if below is plan.input and not isinstance(below, WatermarkAssigner):
        return plan  # nothing stands between the rows and their fields
    if any(isinstance(each, Subquery | OuterColumn) for expression in read for each in walk(expression)):
        return plan
    leaves = _leaves(read)
    source = _projected(below, leaves) if any(isinstance(each, FieldAccess) for each in leaves) else None
    if source is None:
        return plan
    places = {_path(leaf): place for place, leaf in enumerate(leaves)}
    if isinstance(between, Filter):
        source = Filter(source, _over(between.condition, places))
    return Project(source, tuple(_over(each, places) for each in plan.expressions), plan.names)


def _leaves(read: Sequence[BoundExpression]) -> tuple[_Leaf, ...]:
    """What expressions read: columns, and fields of columns that are not read as a whole too."""
    found = {_path(leaf): leaf for expression in read for leaf in _leaves_of(expression)}
    return tuple(leaf for path, leaf in found.items() if len(path) == 1 or path[:1] not in found)


def _leaves_of(expression: BoundExpression) -> list[_Leaf]:
    if isinstance(expression, Column):
        return [expression]
    if isinstance(expression, FieldAccess) and _is_path(expression):
        return [expression]
    below = expression.arguments if isinstance(expression, Call) else ()
    below = (expression.operand,) if isinstance(expression, FieldAccess) else below
    return [leaf for each in below for leaf in _leaves_of(each)]


def _is_path(expression: BoundExpression) -> bool:
    """Whether it is a column, or a field of one, at any depth."""
    return isinstance(expression, Column) or (isinstance(expression, FieldAccess) and _is_path(expression.operand))


def _path(leaf: BoundExpression) -> tuple[int, ...]:
    """The numbers of a column, and of the fields in it."""
    if isinstance(leaf, FieldAccess):
        return (*_path(leaf.operand), leaf.index)
    assert isinstance(leaf, Column)
    return (leaf.index,)


def _over(expression: BoundExpression, places: Mapping[tuple[int, ...], int]) -> BoundExpression:
    """The expression over columns that hold the leaves."""
    if _is_path(expression) and _path(expression) in places:
        return Column(expression.type, places[_path(expression)])
    if isinstance(expression, FieldAccess):
        return replace(expression, operand=_over(expression.operand, places))
    if isinstance(expression, Call):
        return replace(expression, arguments=tuple(_over(each, places) for each in expression.arguments))
    return expression


def _projected(plan: Plan, leaves: Sequence[_Leaf]) -> Plan | None:
    """A plan whose first columns are the leaves; None: it would be no better."""
    match plan:
        case WatermarkAssigner():
            return _below_watermarks(plan, leaves)
        case Project():
            paths = [each for each in leaves if isinstance(each, FieldAccess)]
            if not all(_is_path(plan.expressions[each]) for each in columns_of(*paths)):
                return None  # a row that is computed would be, once for each field
            expressions = tuple(with_columns(leaf, lambda index: plan.expressions[index]) for leaf in leaves)
            return Project(plan.input, expressions, _names(leaves, plan))
        case Scan():
            return Project(plan, tuple(leaves), _names(leaves, plan))
    return None


def _below_watermarks(plan: WatermarkAssigner, leaves: Sequence[_Leaf]) -> Plan | None:
    kinds = plan.input.row_type.types
    needed: dict[int, _Leaf] = {}
    for each in (plan.column, *columns_of(plan.watermark)):
        needed[each] = Column(kinds[each], each)  # no time attribute below
    inner = [needed.pop(leaf.index, leaf) if isinstance(leaf, Column) else leaf for leaf in leaves]
    inner += needed.values()
    source = _projected(plan.input, inner)
    if source is None:
        return None
    places = {each.index: place for place, each in enumerate(inner) if isinstance(each, Column)}
    watermark = with_columns(plan.watermark, lambda index: Column(kinds[index], places[index]))
    return replace(plan, input=source, column=places[plan.column], watermark=watermark)


def _names(leaves: Sequence[_Leaf], plan: Plan) -> tuple[str, ...]:
    return tuple(unique_names([_name_of(leaf, plan.row_type.names) for leaf in leaves]))


def _name_of(leaf: BoundExpression, names: Sequence[str]) -> str:
    """A column's name, with the names of fields of it behind dots."""
    if isinstance(leaf, FieldAccess):
        return f"{_name_of(leaf.operand, names)}.{leaf.name}"
    assert isinstance(leaf, Column)
    return names[leaf.index]


def fields_read(plan: Plan) -> dict[TablePath, frozenset[str]]:
    """What a plan reads of each table: names of columns, and of fields of rows as `column.field`."""
    found: dict[TablePath, frozenset[str]] = {}

    def add(scan: Scan, leaves: Sequence[BoundExpression]) -> None:
        paths = {_name_of(leaf, scan.row_type.names) for leaf in leaves}
        found[scan.table.path] = found.get(scan.table.path, frozenset()) | paths

    def visit(node: Plan) -> Plan:
        if isinstance(node, Project) and isinstance(node.input, Scan):
            add(node.input, _leaves(node.expressions))
            return node
        for each in node.inputs:
            if isinstance(each, Scan):
                add(each, columns(each))
        return node

    bottom_up(plan, visit)
    if isinstance(plan, Scan):
        add(plan, columns(plan))
    return found
