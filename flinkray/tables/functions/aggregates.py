"""Aggregates, and the functions that are only called OVER a window. Declarations: operators accumulate them."""

from __future__ import annotations

from flinkray.tables.functions.parameters import (
    ANYTHING,
    AS_DOUBLE,
    AS_INT,
    NUMBER,
    ORDERED_ALIKE,
    SYMBOL,
    TEXT,
    always,
    of_argument,
)
from flinkray.tables.functions.signatures import Function, FunctionKind, Nullability, Parameter, ResultOf, TypedCall
from flinkray.tables.types.common import common_type
from flinkray.tables.types.logical import (
    ARRAY,
    BIGINT,
    DOUBLE,
    MAX_PRECISION,
    MULTISET,
    STRING,
    VARCHAR,
    DecimalType,
    LogicalType,
    TypeRoot,
)

OF_ALL_VALUES = frozenset(["ARRAY_AGG", "COLLECT", "JSON_ARRAYAGG", "JSON_OBJECTAGG", "LISTAGG", "PERCENTILE"])
"""Aggregates of which all values are kept, whatever comes."""
_SHARE = Parameter("a number from 0 to 1, or an array of such", AS_DOUBLE.roots | {TypeRoot.ARRAY})


def _sum(call: TypedCall) -> LogicalType:
    number = call.types[0]
    return DecimalType(MAX_PRECISION, number.scale) if isinstance(number, DecimalType) else number


def _mean(call: TypedCall) -> LogicalType:
    number = call.types[0]
    return DecimalType(MAX_PRECISION, max(6, number.scale)) if isinstance(number, DecimalType) else number


def _collected(call: TypedCall) -> LogicalType:
    return MULTISET(call.types[0])


def _array(call: TypedCall) -> LogicalType:
    return ARRAY(call.types[0])


def _percentile(call: TypedCall) -> LogicalType:
    share = call.arguments[1]
    if share.type.root is TypeRoot.ARRAY:
        return ARRAY(DOUBLE)
    if not share.is_literal or share.literal is None or not 0 <= share.literal <= 1:
        raise ValueError("its share is a number from 0 to 1 as it stands, or an array of such")
    return DOUBLE


def _neighbour(call: TypedCall) -> LogicalType:
    """LAG and LEAD: NULL at the border, unless there is a default that is not; that is cast to the column's type."""
    if len(call.types) < 3:
        return call.types[0].as_nullable()
    column, default = call.types[0], call.types[2]
    is_other_clock = {column.root, default.root} == {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}
    if common_type([column, default]) is None or is_other_clock:
        raise ValueError(f"the default is {call.types[2]}, where the column is {call.types[0]}")
    return call.types[0].with_nullability(call.types[0].nullable or call.types[2].nullable)


def _aggregate(
    name: str,
    parameters: tuple[Parameter, ...],
    result: ResultOf,
    *synonyms: str,
    nullability: Nullability = Nullability.IF_EMPTY,
    optional: int = 0,
) -> Function:
    return Function(name, parameters, result, nullability, synonyms, optional, kind=FunctionKind.AGGREGATE)


def _ranking(name: str, parameters: tuple[Parameter, ...], result: LogicalType) -> Function:
    return Function(name, parameters, always(result), Nullability.NEVER, kind=FunctionKind.RANKING)


_SPREADS = ("STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP")
_SYNONYMS = {"STDDEV_SAMP": ("STDDEV",), "VAR_SAMP": ("VARIANCE",)}

AGGREGATES = (
    _aggregate("COUNT", (ANYTHING,), always(BIGINT), nullability=Nullability.NEVER, optional=1),
    _aggregate("APPROX_COUNT_DISTINCT", (ANYTHING,), always(BIGINT), nullability=Nullability.NEVER),
    _aggregate("SUM", (NUMBER,), _sum),
    _aggregate("AVG", (NUMBER,), _mean),
    _aggregate("MIN", (ORDERED_ALIKE,), of_argument(0)),
    _aggregate("MAX", (ORDERED_ALIKE,), of_argument(0)),
    *(_aggregate(name, (NUMBER,), _mean, *_SYNONYMS.get(name, ())) for name in _SPREADS),
    _aggregate("FIRST_VALUE", (ANYTHING,), of_argument(0)),
    _aggregate("LAST_VALUE", (ANYTHING,), of_argument(0)),
    _aggregate("SINGLE_VALUE", (ANYTHING,), of_argument(0)),
    _aggregate("LISTAGG", (TEXT, TEXT), always(STRING), optional=1),
    _aggregate("COLLECT", (ANYTHING,), _collected, nullability=Nullability.NEVER),
    _aggregate("ARRAY_AGG", (ANYTHING,), _array, nullability=Nullability.IF_ARGUMENT),
    _aggregate("PERCENTILE", (NUMBER, _SHARE, AS_INT), _percentile, nullability=Nullability.ALWAYS, optional=1),
    _aggregate("JSON_OBJECTAGG", (SYMBOL, TEXT, ANYTHING), always(VARCHAR(2000)), nullability=Nullability.NEVER),
    _aggregate("JSON_ARRAYAGG", (SYMBOL, ANYTHING), always(VARCHAR(2000)), nullability=Nullability.NEVER),
    _ranking("ROW_NUMBER", (), BIGINT),
    _ranking("RANK", (), BIGINT),
    _ranking("DENSE_RANK", (), BIGINT),
    _ranking("NTILE", (AS_INT,), BIGINT),
    _ranking("PERCENT_RANK", (), DOUBLE),
    _ranking("CUME_DIST", (), DOUBLE),
    *(
        Function(
            name,
            (ANYTHING, AS_INT, ANYTHING),
            _neighbour,
            Nullability.AS_INFERRED,
            optional=2,
            kind=FunctionKind.RANKING,
        )
        for name in ("LAG", "LEAD")
    ),
)
