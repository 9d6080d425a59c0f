"""Operators, comparisons, logic and casts."""

from __future__ import annotations

from collections.abc import Callable

from flinkray.tables.functions.parameters import (
    ALIKE,
    ANYTHING,
    BOOLEAN_,
    COMPARABLE,
    EVERY,
    EXACT,
    NUMBER,
    ORDERED_ALIKE,
    ORDERED_COMPARABLE,
    TEXT,
    TEXT_OR_BYTES,
    always,
    meeting,
    of_common,
)
from flinkray.tables.functions.signatures import Function, Nullability, Parameter, ResultOf, TypedCall
from flinkray.tables.types.casts import can_cast
from flinkray.tables.types.common import (
    as_decimal,
    common_type,
    concatenated_length,
    type_of_product,
    type_of_quotient,
    type_of_remainder,
    type_of_sum,
)
from flinkray.tables.types.logical import (
    APPROXIMATE,
    BOOLEAN,
    DATETIMES,
    DOUBLE,
    INTERVALS,
    NUMBERS,
    TEXTS,
    LengthType,
    LogicalType,
    TimestampType,
    TypeRoot,
)

_TERM = Parameter("a number, time or interval", NUMBERS | DATETIMES | INTERVALS)
_FACTOR = Parameter("a number or interval", NUMBERS | INTERVALS)
_SIGNED = Parameter("a number or interval", NUMBERS | INTERVALS)


# -- arithmetic ----------------------------------------------------------------------------------------------------


def _number(left: LogicalType, right: LogicalType, of_decimals: Callable[..., LogicalType]) -> LogicalType | None:
    """The type of a computed number; None: one of the two is none."""
    if left.root not in NUMBERS or right.root not in NUMBERS:
        return None
    if TypeRoot.DECIMAL in (left.root, right.root):
        if left.is_one_of(APPROXIMATE) or right.is_one_of(APPROXIMATE):
            return DOUBLE
        return of_decimals(as_decimal(left), as_decimal(right))
    if left.is_one_of(APPROXIMATE) and right.is_one_of(APPROXIMATE):
        return left  # Flink computes FLOAT + DOUBLE as FLOAT, and DOUBLE + FLOAT as DOUBLE
    return common_type([left, right])


def _sum(call: TypedCall) -> LogicalType:
    left, right = call.types
    number = _number(left, right, type_of_sum)
    if number is not None:
        return number
    if left.root in INTERVALS and right.root in DATETIMES:
        return right
    if left.root in DATETIMES and right.root in INTERVALS:
        return left
    if left.root in INTERVALS and left.root is right.root:
        return left
    raise ValueError(f"{left} and {right} have no sum")


def _difference(call: TypedCall) -> LogicalType:
    if len(call.types) == 1:
        return _negated(call.types[0])
    left, right = call.types
    if left.root in INTERVALS and right.root in DATETIMES:
        raise ValueError(f"{right} cannot be taken from an interval")
    if left.root in DATETIMES and right.root in DATETIMES:
        if call.target is None or call.target.root not in INTERVALS:
            raise ValueError("two times are apart by an interval, which has to be named: (end - begin) SECOND")
        return call.target
    return _sum(call)


def _negated(value: LogicalType) -> LogicalType:
    if value.root in NUMBERS | INTERVALS:
        return value
    raise ValueError(f"{value} has no negative")


def _product(call: TypedCall) -> LogicalType:
    left, right = call.types
    number = _number(left, right, type_of_product)
    if number is not None:
        return number
    if left.root in INTERVALS and right.root in NUMBERS:
        return left
    if left.root in NUMBERS and right.root in INTERVALS:
        return right
    raise ValueError(f"{left} and {right} have no product")


def _quotient(call: TypedCall) -> LogicalType:
    number = _number(call.types[0], call.types[1], type_of_quotient)
    assert number is not None
    return number


def _remainder(call: TypedCall) -> LogicalType:
    left, right = call.types
    if TypeRoot.DECIMAL in (left.root, right.root):
        return type_of_remainder(as_decimal(left), as_decimal(right))
    return right


def concatenated(call: TypedCall) -> LogicalType:
    """The type of texts or byte strings one after the other."""
    first, *others = call.types
    for other in others:
        if not isinstance(first, LengthType) or not isinstance(other, LengthType) or not _are_alike(first, other):
            raise ValueError(f"{first} and {other} are not both texts, nor both bytes")
        is_fixed = first.is_fixed and other.is_fixed
        kind = first.kind if is_fixed or not first.is_fixed else other.kind
        first = LengthType(kind, concatenated_length(first, other))
    return first


def _are_alike(left: LengthType, right: LengthType) -> bool:
    return (left.kind in TEXTS) == (right.kind in TEXTS)


# -- casts and conditions ------------------------------------------------------------------------------------------


def _cast(is_try: bool) -> ResultOf:
    def result(call: TypedCall) -> LogicalType:
        source = call.types[0]
        target = call.target
        if target is None:
            raise ValueError("a cast needs the type to cast to")
        if not can_cast(source, target.as_nullable()):
            raise ValueError(f"{source} cannot be cast to {target}{_instead(source, target)}")
        return target.with_nullability(is_try or source.nullable)

    return result


def _instead(source: LogicalType, target: LogicalType) -> str:
    """What to write instead of a cast that is not allowed, where there is something."""
    if isinstance(source, TimestampType) and target.root in NUMBERS:
        return ": UNIX_TIMESTAMP(CAST(x AS STRING)) gives seconds since 1970"
    if source.root in NUMBERS and isinstance(target, TimestampType):
        return ": TO_TIMESTAMP_LTZ(x, 0) takes seconds since 1970, and TO_TIMESTAMP_LTZ(x, 3) milliseconds"
    return ""


def _case(call: TypedCall) -> LogicalType:
    values = list(call.types[1::2])
    if len(call.types) % 2:
        values.append(call.types[-1])
    common = common_type(values)
    if common is None:
        raise ValueError(f"the results have no common type: {', '.join(map(str, values))}; CAST them to one")
    return common if len(call.types) % 2 else common.as_nullable()


def _coalesced(call: TypedCall) -> LogicalType:
    common = of_common(call)
    return common.with_nullability(all(one.nullable for one in call.types))


def _nullif(call: TypedCall) -> LogicalType:
    of_common(call)
    return call.types[0]


def _if(call: TypedCall) -> LogicalType:
    return meeting(call.types[1:])


_RESULT = Parameter("a result", EVERY, common="results")
_BRANCH = Parameter("a result", EVERY, common="branches")
_WHEN = (BOOLEAN_, _RESULT)


def _case_parameters(count: int) -> tuple[Parameter, ...] | None:
    """Conditions, each with its result, and the result where none holds."""
    return None if count < 2 else _WHEN * (count // 2) + (_RESULT,) * (count % 2)


_COMPARISONS = tuple(Function(name, (COMPARABLE, COMPARABLE), always(BOOLEAN)) for name in ("=", "<>")) + tuple(
    Function(name, (ORDERED_COMPARABLE, ORDERED_COMPARABLE), always(BOOLEAN)) for name in ("<", "<=", ">", ">=")
)
_TESTS = tuple(
    Function(f"IS {negation}{value}", (BOOLEAN_,), always(BOOLEAN), Nullability.NEVER)
    for negation in ("", "NOT ")
    for value in ("TRUE", "FALSE", "UNKNOWN")
) + tuple(Function(f"IS {negation}NULL", (ANYTHING,), always(BOOLEAN), Nullability.NEVER) for negation in ("", "NOT "))

OPERATORS = (
    Function("+", (_TERM, _TERM), _sum),
    Function("-", (_TERM, _TERM), _difference, optional=1),
    Function("*", (_FACTOR, _FACTOR), _product),
    Function("/", (NUMBER, NUMBER), _quotient),
    Function("%", (EXACT, EXACT), _remainder, synonyms=("MOD",)),
    Function("||", (TEXT_OR_BYTES, TEXT_OR_BYTES), concatenated),
    *_COMPARISONS,
    *_TESTS,
    Function("IS DISTINCT FROM", (COMPARABLE, COMPARABLE), always(BOOLEAN), Nullability.NEVER),
    Function("IS NOT DISTINCT FROM", (COMPARABLE, COMPARABLE), always(BOOLEAN), Nullability.NEVER),
    Function("AND", (BOOLEAN_, BOOLEAN_), always(BOOLEAN), repeats=1),
    Function("OR", (BOOLEAN_, BOOLEAN_), always(BOOLEAN), repeats=1),
    Function("NOT", (BOOLEAN_,), always(BOOLEAN)),
    Function("IN", (COMPARABLE, COMPARABLE), always(BOOLEAN), repeats=1),
    Function("BETWEEN", (ORDERED_COMPARABLE,) * 3, always(BOOLEAN)),
    Function("LIKE", (TEXT, TEXT, TEXT), always(BOOLEAN), optional=1),
    Function("SIMILAR TO", (TEXT, TEXT, TEXT), always(BOOLEAN), optional=1),
    Function("CAST", (ANYTHING,), _cast(is_try=False), Nullability.AS_INFERRED),
    Function("TRY_CAST", (ANYTHING,), _cast(is_try=True), Nullability.AS_INFERRED),
    Function("CASE", _WHEN, _case, Nullability.AS_INFERRED, varying=_case_parameters),
    Function("COALESCE", (ALIKE,), _coalesced, Nullability.AS_INFERRED, repeats=1),
    Function("IFNULL", (ALIKE, ALIKE), _coalesced, Nullability.AS_INFERRED),
    Function("NULLIF", (ANYTHING, ANYTHING), _nullif, Nullability.ALWAYS),
    Function("IF", (BOOLEAN_, _BRANCH, _BRANCH), _if),
    Function("GREATEST", (ORDERED_ALIKE,), of_common, repeats=1),
    Function("LEAST", (ORDERED_ALIKE,), of_common, repeats=1),
)
