"""MATCH_RECOGNIZE: patterns of rows, what their variables ask of rows, and what is told of matches.

What a single row says becomes a column below the match: conditions of DEFINE that read only the row itself, and
whatever is read of other rows. So the match computes only what brings several rows together.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from msgspec.structs import replace

from flinkray.tables.binding.calls import cast_to, plain, resolved
from flinkray.tables.binding.constants import constant
from flinkray.tables.binding.context import Context
from flinkray.tables.binding.expressions import ExpressionBinder, QueryBinder
from flinkray.tables.binding.outputs import nulls_first
from flinkray.tables.binding.scope import Scope, resolve
from flinkray.tables.plans.expressions import (
    AggregateCall,
    BoundExpression,
    Call,
    Column,
    Constant,
    MatchRead,
    PatternVariable,
    Plan,
    SortKey,
    conjunction,
    conjuncts,
    rewritten,
    walk,
)
from flinkray.tables.plans.nodes import Match, Project, unique_names
from flinkray.tables.syntax import expressions as words
from flinkray.tables.syntax import queries as syntax
from flinkray.tables.syntax.names import Path
from flinkray.tables.syntax.nodes import Node
from flinkray.tables.types.logical import TIMESTAMP_LTZ, LogicalType, TimeAttribute, TimestampType, TypeRoot

_NEVER_NULL = frozenset({"COUNT", "COLLECT"})
_AGGREGATES = (
    _NEVER_NULL
    | frozenset({"SUM", "AVG", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"})
    | frozenset({"ARRAY_AGG", "LISTAGG", "PERCENTILE"})
    | frozenset({"STDDEV_POP", "STDDEV_SAMP", "STDDEV", "VAR_POP", "VAR_SAMP", "VARIANCE"})
)
_PROCTIME = TIMESTAMP_LTZ(3).not_null().as_attribute(TimeAttribute.PROCTIME)


class _Read(BoundExpression, frozen=True):
    """What is read of the rows of a variable (None: of all), over the columns of the input."""

    kind: str
    variable: str | None = None
    offset: int = 0
    operand: BoundExpression | None = None
    call: AggregateCall | None = None


class MatchBinder(ExpressionBinder):
    """Binds MATCH_RECOGNIZE over the columns of its input."""

    def __init__(self, context: Context, scope: Scope, query: QueryBinder) -> None:
        super().__init__(context, scope, query, "MATCH_RECOGNIZE")
        self._variables: list[str] = []
        self._time: TimestampType
        self._within: str | None = None
        """The variable of the FIRST, LAST or aggregate that is being bound; "": none is yet."""

    def bind_match(self, node: syntax.MatchRecognize, source: Plan) -> Match:
        """The plan of a match.

        Raises:
            SqlValidationError: it is wrong, or Flink does not support it; says what.
        """
        if node.all_rows:
            self.context.fail(node, "ALL ROWS PER MATCH is not supported, as in Flink: ONE ROW PER MATCH is")
        if node.subsets:
            self.context.fail(node.subsets[0], "SUBSET is not supported, as in Flink")
        parts = self._pattern(node.pattern)
        columns = _Columns(source)
        keys = tuple(columns.add(self._partition_key(each)) for each in node.partition_by)
        order = self._order(node, columns)
        reads: list[MatchRead] = []
        defined = self._definitions(node)
        variables = tuple(self._variable(part, defined, columns, reads) for part in parts)
        self.where = "MEASURES"
        measures = tuple(_over_reads(self.bind(each.expression), columns, reads) for each in node.measures)
        names = [columns.names[key] for key in keys] + [each.name.text for each in node.measures]
        if not names:
            self.context.fail(node, "a match without PARTITION BY and MEASURES has no columns; add MEASURES")
        return Match(
            columns.plan(),
            keys,
            order,
            variables,
            self._skip(node),
            self._window(node),
            tuple(reads),
            measures,
            tuple(unique_names(names)),
        )

    # -- PARTITION BY, ORDER BY, AFTER MATCH, WITHIN

    def _partition_key(self, node: words.Expression) -> Column:
        found = ExpressionBinder(self.context, self.scope, self.query, "PARTITION BY").bind(node)
        if not isinstance(found, Column):
            self.context.fail(node, "PARTITION BY takes columns here; compute others in a query below")
        return found

    def _order(self, node: syntax.MatchRecognize, columns: _Columns) -> tuple[SortKey, ...]:
        if not node.order_by:
            self.context.fail(node, "MATCH_RECOGNIZE needs ORDER BY a time attribute, ascending")
        keys: list[SortKey] = []
        for item in node.order_by:
            binder = ExpressionBinder(self.context, self.scope, self.query, "ORDER BY")
            found = binder.bind(item.expression)
            if not isinstance(found, Column):
                self.context.fail(item, "ORDER BY takes columns here; compute others in a query below")
            if not keys:
                kind = found.type
                if not isinstance(kind, TimestampType) or item.descending:
                    self.context.fail(item, f"ORDER BY begins with a time attribute, ascending; this is {kind}")
                self._time = kind
            keys.append(SortKey(columns.add(found), item.descending, nulls_first(item)))
        return tuple(keys)

    def _skip(self, node: syntax.MatchRecognize) -> tuple[str, str | None]:
        if node.after_variable is None:
            return node.after or "NEXT ROW", None
        name = node.after_variable.text
        if name not in self._variables:
            self.context.fail(node.after_variable, f"no variable {name!r} in PATTERN to skip to")
        return node.after, name

    def _window(self, node: syntax.MatchRecognize) -> int | None:
        if node.within is None:
            return None
        found = constant(node.within, self.context)
        if found is None or found.type.root is not TypeRoot.INTERVAL_DAY_TIME or found.value <= 0:
            self.context.fail(node.within, "WITHIN takes an interval of days to seconds above 0")
        return int(found.value)

    # -- PATTERN and DEFINE

    def _pattern(self, pattern: syntax.Pattern) -> list[syntax.Pattern]:
        """The variables of a pattern, each with its quantifier."""
        is_sequence = pattern.kind == "sequence" and (pattern.least, pattern.most) == (1, 1)
        parts = list(pattern.parts) if is_sequence else [pattern]
        for part in parts:
            self._check_part(part)
            assert part.variable is not None
            if part.variable.text in self._variables:
                self.context.fail(part, "each variable stands once in PATTERN, as in Flink")
            self._variables.append(part.variable.text)
        last = parts[-1]
        for before, part in pairwise(parts):
            if part.least == 0 and _is_greedy(before):
                self.context.fail(
                    part, "a variable behind a greedy one cannot be optional, as in Flink: make one reluctant"
                )
        if _is_greedy(last):
            self.context.fail(
                last,
                "a greedy quantifier cannot be the last of a pattern, as in Flink: end with a variable without one, or "
                "with a reluctant one, such as B+?",
            )
        if all(part.least == 0 for part in parts):
            self.context.fail(pattern, "a pattern that no row at all would match is not supported, as in Flink")
        return parts

    def _check_part(self, part: syntax.Pattern) -> None:
        kinds = {
            "choice": "alternatives (A | B) are not supported, as in Flink",
            "permute": "PERMUTE is not supported, as in Flink: write the variables in one order",
            "exclude": "{- -} is not supported, as in Flink",
            "start": "^ is not supported, as in Flink",
            "end": "$ is not supported, as in Flink",
            "sequence": "groups of variables are not supported, as in Flink: quantify single variables",
        }
        if part.kind in kinds:
            self.context.fail(part, kinds[part.kind])
        if part.reluctant and (part.least, part.most) == (0, 1):
            self.context.fail(part, "a reluctant optional variable (A??) is not supported, as in Flink")
        if part.most is not None and (part.most == 0 or part.most < part.least):
            self.context.fail(
                part, f"a variable takes at least {part.least} and at most {part.most} rows: that is none"
            )

    def _definitions(self, node: syntax.MatchRecognize) -> Mapping[str, BoundExpression]:
        found: dict[str, BoundExpression] = {}
        self.where = "DEFINE"
        for definition in node.definitions:
            name = definition.variable.text
            if name not in self._variables:
                known = ", ".join(self._variables)
                self.context.fail(definition.variable, f"no variable {name!r} in PATTERN; variables: {known}")
            if name in found:
                self.context.fail(definition.variable, f"{name!r} is defined twice")
            found[name] = self.condition(definition.condition)
            if any(each.kind.endswith("TIME") for each in _reads_of(found[name])):
                self.context.fail(definition.condition, "MATCH_ROWTIME and MATCH_PROCTIME are for MEASURES")
        return found

    def _variable(
        self,
        part: syntax.Pattern,
        defined: Mapping[str, BoundExpression],
        columns: _Columns,
        reads: list[MatchRead],
    ) -> PatternVariable:
        assert part.variable is not None
        name = part.variable.text
        of_row: list[int] = []
        others: list[BoundExpression] = []
        for each in conjuncts(defined.get(name)):
            own = _as_own(each, name)
            if own is None:
                others.append(_over_reads(_with_own_parts(each, name), columns, reads))
            else:
                of_row.append(columns.add(own))
        return PatternVariable(name, part.least, part.most, not part.reluctant, tuple(of_row), conjunction(others))

    # -- expressions

    def bind(self, node: words.Expression) -> BoundExpression:
        """An expression over the rows of variables, of which each reads a `_Read`."""
        if isinstance(node, words.Reference):
            return self._reference(node)
        if isinstance(node, words.Call) and node.over is None and len(node.function.names) == 1:
            name = node.function.texts[0].upper()
            if name in ("FIRST", "LAST"):
                return self._navigation(node, name)
            if name in ("PREV", "NEXT"):
                self.context.fail(node, f"{name} is not supported, as in Flink: LAST(A.x, 1) is the row of A before")
            if name == "MATCH_ROWTIME":
                return _Read(self._rowtime(node), "ROWTIME")
            if name == "MATCH_PROCTIME":
                return _Read(_PROCTIME, "PROCTIME")
        return super().bind(node)

    def _rowtime(self, node: Node) -> LogicalType:
        if self._time.attribute is TimeAttribute.PROCTIME:
            self.context.fail(node, "MATCH_ROWTIME needs ORDER BY a rowtime attribute")
        return replace(self._time, precision=3, nullable=False)

    def plan(self, query: words.Query) -> Plan:
        """A query in an expression."""
        self.context.fail(query, f"a query cannot stand in {self.where} of MATCH_RECOGNIZE, as in Flink")

    def _reference(self, node: words.Reference) -> BoundExpression:
        path, variable = node.path, None
        if len(path.names) > 1 and path.texts[0] in self._variables:
            variable = path.texts[0]
            path = Path(path.names[1:], span=path.span)
        found = resolve(path, self.scope, self.context)
        if self._within is None:
            return _Read(plain(found.type).as_nullable(), "LAST", variable, 0, found)
        if self._within not in ("", variable or "*"):
            self.context.fail(node, "FIRST, LAST and aggregates read the rows of one variable")
        self._within = variable or "*"
        return found

    def _navigation(self, node: words.Call, name: str) -> BoundExpression:
        if not 1 <= len(node.arguments) <= 2 or self._within is not None:
            self.context.fail(node, f"{name} takes an expression over the rows of a variable, and perhaps a number")
        offset = constant(node.arguments[1], self.context) if len(node.arguments) == 2 else Constant(_PROCTIME, 0)
        if offset is None or not isinstance(offset.value, int) or offset.value < 0:
            self.context.fail(node.arguments[1], f"{name} takes a number of rows, from 0, that is a constant")
        variable, (operand,) = self._of_one_variable(node, node.arguments[:1])
        return _Read(plain(operand.type).as_nullable(), name, variable, offset.value, operand)

    def _of_one_variable(
        self, node: Node, arguments: tuple[words.Expression, ...]
    ) -> tuple[str | None, list[BoundExpression]]:
        if self._within is not None:
            self.context.fail(node, "FIRST, LAST and aggregates do not stand in each other")
        self._within = ""
        try:
            found = [self.bind(each) for each in arguments]
            variable = self._within
        finally:
            self._within = None
        return (None if variable in ("", "*") else variable), found

    def aggregate_call(self, node: words.Call) -> BoundExpression:
        """An aggregate of the rows of a variable, or of all."""
        name = node.function.texts[-1].upper()
        if name not in _AGGREGATES or self.context.catalog.function(node.function.texts) is not None:
            self.context.fail(
                node, f"{name} is not computed over the rows of a match; {', '.join(sorted(_AGGREGATES))} are"
            )
        if node.distinct or node.filter is not None or node.within_group:
            self.context.fail(
                node, "DISTINCT, FILTER and WITHIN GROUP are not supported in MATCH_RECOGNIZE, as in Flink"
            )
        arguments = tuple(each for each in node.arguments if not isinstance(each, words.Star))
        variable, bound = self._of_one_variable(node, arguments)
        star = next((each for each in node.arguments if isinstance(each, words.Star)), None)
        if star is not None and star.path is not None:
            variable = star.path.texts[0]
            if name != "COUNT" or variable not in self._variables:
                self.context.fail(star, "A.* of a variable A is an argument of COUNT alone")
        found = resolved(node, name, bound, self.context)
        cast = tuple(cast_to(each, kind) for each, kind in zip(bound, found.argument_types, strict=True))
        kind = plain(found.result_type)
        kind = kind if name in _NEVER_NULL else kind.as_nullable()
        call = AggregateCall(found.name, cast, kind, ignore_nulls=node.ignore_nulls)
        return _Read(kind, "AGGREGATE", variable, call=call)


def _is_greedy(part: syntax.Pattern) -> bool:
    """Whether it takes as many rows as it can, of which there may be more than one."""
    return part.least != part.most and not part.reluctant and (part.least, part.most) != (0, 1)


class _Columns:
    """The columns that a match has of each row of its input."""

    def __init__(self, source: Plan) -> None:
        self._source = source
        self._expressions: list[BoundExpression] = []

    def add(self, expression: BoundExpression) -> int:
        """The number of the column with that expression over the input."""
        if expression not in self._expressions:
            self._expressions.append(expression)
        return self._expressions.index(expression)

    @property
    def names(self) -> list[str]:
        known = self._source.row_type.names
        return unique_names(
            [
                known[each.index] if isinstance(each, Column) else f"$m{place}"
                for place, each in enumerate(self._expressions)
            ]
        )

    def plan(self) -> Plan:
        """The input with these columns."""
        return Project(self._source, tuple(self._expressions), tuple(self.names))


def _reads_of(expression: BoundExpression) -> list[_Read]:
    return [each for each in walk(expression) if isinstance(each, _Read)]


def _as_own(expression: BoundExpression, variable: str) -> BoundExpression | None:
    """An expression that reads only the row that is asked about, over the input's columns; None: it reads others."""
    reads = _reads_of(expression)
    if not all(each.kind == "LAST" and each.offset == 0 and each.variable in (variable, None) for each in reads):
        return None
    return rewritten(expression, lambda each: _operand(each) if isinstance(each, _Read) else each)


def _operand(read: _Read) -> BoundExpression:
    assert read.operand is not None
    return read.operand


def _with_own_parts(expression: BoundExpression, variable: str) -> BoundExpression:
    """The expression with each of its largest parts that read the row itself alone as one value of that row."""
    own = _as_own(expression, variable)
    if own is not None and _reads_of(expression):
        return _Read(plain(expression.type).as_nullable(), "LAST", None, 0, own)
    if isinstance(expression, Call):
        return replace(expression, arguments=tuple(_with_own_parts(each, variable) for each in expression.arguments))
    return expression


def _over_reads(expression: BoundExpression, columns: _Columns, reads: list[MatchRead]) -> BoundExpression:
    """The expression with columns in the place of what it reads: the numbers of `reads`."""

    def read_of(each: _Read) -> MatchRead:
        if each.call is None:
            column = -1 if each.operand is None else columns.add(each.operand)
            return MatchRead(each.kind, each.type, each.variable, each.offset, column)
        arguments: list[BoundExpression] = []
        for argument in each.call.arguments:
            is_constant = isinstance(argument, Constant)
            arguments.append(argument if is_constant else Column(argument.type, columns.add(argument)))
        return MatchRead(each.kind, each.type, each.variable, call=replace(each.call, arguments=tuple(arguments)))

    def column(each: BoundExpression) -> BoundExpression:
        if not isinstance(each, _Read):
            return each
        found = read_of(each)
        if found not in reads:
            reads.append(found)
        return Column(each.type, reads.index(found))

    return rewritten(expression, column)
