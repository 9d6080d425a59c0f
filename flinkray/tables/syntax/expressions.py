"""Expressions as they are written, and the frame of a query, which may stand in one; nothing is looked up yet."""

from __future__ import annotations

from flinkray.tables.syntax.names import IntervalUnits, Name, Path, TypeName
from flinkray.tables.syntax.nodes import Node


class Expression(Node, frozen=True):
    """Base of what has a value."""


class Reference(Expression, frozen=True):
    """A column, or a field of one, perhaps with its table before it: `a`, `t.a`, `t.row.field`."""

    path: Path


class Star(Expression, frozen=True):
    """`*`, or `t.*` with a path before the star; in SELECT, and alone in COUNT(*)."""

    path: Path | None = None


class Number(Expression, frozen=True):
    """A number without sign, as written: `1`, `1.50`, `1e3`."""

    text: str


class Text(Expression, frozen=True):
    """A string; escapes are resolved."""

    value: str


class Binary(Expression, frozen=True):
    """`X'4A'`: bytes."""

    value: bytes


class Truth(Expression, frozen=True):
    """TRUE, FALSE, or UNKNOWN as None."""

    value: bool | None


class Null(Expression, frozen=True):
    """NULL."""


class Default(Expression, frozen=True):
    """DEFAULT as an argument: the parameter's own value."""


class Temporal(Expression, frozen=True):
    """`DATE '2020-01-01'`: kind is DATE, TIME, TIMESTAMP or TIMESTAMP_LTZ, and the text is as written."""

    kind: str
    text: str


class Interval(Expression, frozen=True):
    """`INTERVAL -'1 10:00' DAY TO MINUTE`."""

    text: str
    units: IntervalUnits
    negative: bool = False


class Symbol(Expression, frozen=True):
    """A word that is an argument: a unit of time, or BOTH, LEADING, TRAILING. In capitals."""

    name: str


class Prefix(Expression, frozen=True):
    """`-a`, `+a`, `NOT a`."""

    operator: str
    operand: Expression


class Infix(Expression, frozen=True):
    """Two operands: `+ - * / % || = <> < <= > >=`, `IS [NOT] DISTINCT FROM`, `OVERLAPS`. `!=` is read as `<>`."""

    operator: str
    left: Expression
    right: Expression


class Apart(Expression, frozen=True):
    """`(end - begin) DAY`: how far two times are apart, as an interval."""

    end: Expression
    begin: Expression
    units: IntervalUnits


class Junction(Expression, frozen=True):
    """`a AND b AND c`, or OR: two or more operands."""

    operator: str
    operands: tuple[Expression, ...]


class Is(Expression, frozen=True):
    """`a IS [NOT] test`, where the test is NULL, TRUE, FALSE, UNKNOWN or one of JSON's."""

    operand: Expression
    test: str
    negated: bool = False


class Between(Expression, frozen=True):
    """`a [NOT] BETWEEN [SYMMETRIC] low AND high`."""

    operand: Expression
    low: Expression
    high: Expression
    symmetric: bool = False
    negated: bool = False


class InList(Expression, frozen=True):
    """`a [NOT] IN (1, 2)`."""

    operand: Expression
    items: tuple[Expression, ...]
    negated: bool = False


class InQuery(Expression, frozen=True):
    """`a [NOT] IN (SELECT ...)`; several columns are a Row."""

    operand: Expression
    query: Query
    negated: bool = False


class Quantified(Expression, frozen=True):
    """`a > ALL (SELECT ...)`; the quantifier is ALL or ANY (SOME is read as ANY)."""

    operand: Expression
    operator: str
    quantifier: str
    query: Query


class Exists(Expression, frozen=True):
    """`EXISTS (SELECT ...)`."""

    query: Query


class Subquery(Expression, frozen=True):
    """`(SELECT ...)` as a value."""

    query: Query


class Like(Expression, frozen=True):
    """`a [NOT] LIKE b [ESCAPE c]`; the operator is LIKE, ILIKE, RLIKE or SIMILAR TO."""

    operand: Expression
    pattern: Expression
    operator: str = "LIKE"
    escape: Expression | None = None
    negated: bool = False


class When(Node, frozen=True):
    """`WHEN condition THEN result`."""

    condition: Expression
    result: Expression


class Case(Expression, frozen=True):
    """`CASE [operand] WHEN ... [ELSE ...] END`."""

    operand: Expression | None
    whens: tuple[When, ...]
    otherwise: Expression | None = None


class Cast(Expression, frozen=True):
    """`CAST(a AS type)`, or TRY_CAST, which gives null for what does not fit."""

    operand: Expression
    type: TypeName
    tries: bool = False


class Row(Expression, frozen=True):
    """`ROW(a, b)` or `(a, b)`."""

    items: tuple[Expression, ...]


class ArrayOf(Expression, frozen=True):
    """`ARRAY[a, b]`."""

    items: tuple[Expression, ...]


class MapOf(Expression, frozen=True):
    """`MAP[k1, v1, k2, v2]`: keys and values by turns."""

    items: tuple[Expression, ...]


class CollectionOfQuery(Expression, frozen=True):
    """`ARRAY(SELECT ...)`, MAP or MULTISET."""

    kind: str
    query: Query


class Subscript(Expression, frozen=True):
    """`a[1]`."""

    operand: Expression
    index: Expression


class Field(Expression, frozen=True):
    """`(a).name`, a field of what is no plain path."""

    operand: Expression
    name: Name


class Call(Expression, frozen=True):
    """A function or aggregate. What has a syntax of its own is a call too: `POSITION(a IN b)` is POSITION(a, b)."""

    function: Path
    arguments: tuple[Expression, ...] = ()
    distinct: bool = False
    clauses: tuple[Clause, ...] = ()
    within_group: tuple[OrderItem, ...] = ()
    filter: Expression | None = None
    ignore_nulls: bool | None = None
    over: Window | None = None


class Clause(Node, frozen=True):
    """What stands behind the arguments in the parentheses of JSON functions: `RETURNING type`, `NULL ON EMPTY`.

    `words` are in capitals, with the value left out: `DEFAULT ON EMPTY`.
    """

    words: str
    value: Expression | None = None
    type: TypeName | None = None


class KeyValue(Expression, frozen=True):
    """`KEY k VALUE v`, an argument of JSON_OBJECT."""

    key: Expression
    value: Expression


class NamedArgument(Expression, frozen=True):
    """`name => value`."""

    name: Name
    value: Expression


class TableArgument(Expression, frozen=True):
    """`TABLE t`, or a query, as an argument of a table function, with the columns that it is partitioned by."""

    table: Path | Query
    partition_by: tuple[Expression, ...] = ()
    order_by: tuple[OrderItem, ...] = ()


class Descriptor(Expression, frozen=True):
    """`DESCRIPTOR(a, b)`: columns by name."""

    columns: tuple[Name, ...]


class ModelArgument(Expression, frozen=True):
    """`MODEL m` as an argument of a table function."""

    model: Path


# -- windows of OVER


class FrameBound(Node, frozen=True):
    """One end of a frame: UNBOUNDED PRECEDING, CURRENT ROW, or `offset` PRECEDING or FOLLOWING."""

    direction: str
    """PRECEDING, FOLLOWING or CURRENT ROW."""
    offset: Expression | None = None
    """None where it is unbounded, or the current row."""


class Frame(Node, frozen=True):
    """`ROWS BETWEEN ... AND ...`; unit is ROWS or RANGE. Without AND, the end is None."""

    unit: str
    start: FrameBound
    end: FrameBound | None = None


class Window(Node, frozen=True):
    """`OVER w` or `OVER ([w] PARTITION BY ... ORDER BY ... ROWS ...)`; a bare name has nothing but `name`."""

    name: Name | None = None
    partition_by: tuple[Expression, ...] = ()
    order_by: tuple[OrderItem, ...] = ()
    frame: Frame | None = None
    is_reference: bool = False
    """Whether it is a name without parentheses."""


# -- the frame of a query


class QueryBody(Node, frozen=True):
    """Base of what a query may be: SELECT, a set operation, VALUES, or a query in parentheses (see `queries`)."""


class CommonTable(Node, frozen=True):
    """`name (columns) AS (query)` of WITH."""

    name: Name
    query: Query
    columns: tuple[Name, ...] = ()


class OrderItem(Node, frozen=True):
    """`a DESC NULLS LAST`; `nulls_first` is None where the text does not say."""

    expression: Expression
    descending: bool = False
    nulls_first: bool | None = None


class Query(QueryBody, frozen=True):
    """A query with what is around its body: WITH before, ORDER BY, LIMIT and OFFSET behind."""

    body: QueryBody
    common_tables: tuple[CommonTable, ...] = ()
    recursive: bool = False
    order_by: tuple[OrderItem, ...] = ()
    offset: Expression | None = None
    limit: Expression | None = None
    """FETCH FIRST n ROWS ONLY too. None: all rows."""
