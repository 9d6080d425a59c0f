"""All functions of SQL by name, and the types of a call of one.

Operators are functions under their sign or keyword: `+`, `-` (with one argument the sign of a number), `*`, `/`, `%`,
`||`, `=`, `<>`, `<`, `<=`, `>`, `>=`, `AND`, `OR`, `NOT`, `IS NULL`, `IS NOT NULL`, `IS TRUE`, `IS NOT TRUE`,
`IS FALSE`, `IS NOT FALSE`, `IS UNKNOWN`, `IS NOT UNKNOWN`, `IS DISTINCT FROM`, `IS NOT DISTINCT FROM`, `LIKE`,
`SIMILAR TO`, `IN`, `BETWEEN`, `CASE` (condition, value, …, else), `CAST`, `TRY_CAST`, `ITEM` (`a[i]`), `ROW`, `ARRAY`,
`MAP`, `EXTRACT` (unit, value), `FLOOR` and `CEIL` (value, unit), `TIMESTAMPADD`, `TIMESTAMPDIFF` (unit, …), `TRIM`
(BOTH, LEADING or TRAILING; characters; text). A negation, as `NOT LIKE`, is `NOT` of the call. Units and such symbols
are arguments of type CHAR with their name as literal.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinkray.errors import InvalidProgramError, did_you_mean
from flinkray.tables.functions.aggregates import AGGREGATES
from flinkray.tables.functions.collections import COLLECTION_FUNCTIONS
from flinkray.tables.functions.json import JSON_FUNCTIONS
from flinkray.tables.functions.numbers import NUMERIC_FUNCTIONS
from flinkray.tables.functions.operators import OPERATORS
from flinkray.tables.functions.signatures import (
    Argument,
    Function,
    Nullability,
    ResolvedCall,
    TypedCall,
    argument_types,
)
from flinkray.tables.functions.texts import TEXT_FUNCTIONS
from flinkray.tables.functions.times import TIME_FUNCTIONS
from flinkray.tables.types.logical import LogicalType

_FUNCTIONS = (
    *OPERATORS,
    *NUMERIC_FUNCTIONS,
    *TEXT_FUNCTIONS,
    *TIME_FUNCTIONS,
    *COLLECTION_FUNCTIONS,
    *JSON_FUNCTIONS,
    *AGGREGATES,
)
FUNCTIONS: dict[str, Function] = {
    name: function for function in _FUNCTIONS for name in (function.name, *function.synonyms)
}
"""Functions by their names and synonyms, in capitals."""


class FunctionCallError(InvalidProgramError):
    """No such function, or it does not take these arguments; the message names both, and what it takes."""


_OF_OTHERS = {
    "COLLECT_LIST": "ARRAY_AGG(value)",
    "DATEADD": "time + INTERVAL '1' DAY",
    "DATEDIFF": "TIMESTAMPDIFF(DAY, begin, end)",
    "DATE_ADD": "time + INTERVAL '1' DAY",
    "DATE_SUB": "time - INTERVAL '1' DAY",
    "EXPLODE": "CROSS JOIN UNNEST(array) AS t (element)",
    "GETDATE": "CURRENT_TIMESTAMP",
    "GROUP_CONCAT": "LISTAGG(value, ',')",
    "IIF": "IF(condition, value, other)",
    "ISNULL": "value IS NULL, or COALESCE(value, other)",
    "LEN": "CHAR_LENGTH(value)",
    "LENGTH": "CHAR_LENGTH(value)",
    "NVL": "COALESCE(value, other)",
    "SIZE": "CARDINALITY(value)",
    "STRING_AGG": "LISTAGG(value, ',')",
    "TO_CHAR": "DATE_FORMAT(time, 'yyyy-MM-dd')",
    "TO_NUMBER": "CAST(value AS DECIMAL(38, 18))",
}
"""How what other databases have as functions is written here."""


def find(name: str) -> Function:
    """The function of that name, whatever its case.

    Raises:
        FunctionCallError: there is none; offers the nearest name.
    """
    function = FUNCTIONS.get(name.upper())
    if function is None:
        meant = _OF_OTHERS.get(name.upper())
        way_out = f": write {meant}" if meant else did_you_mean(name.upper(), FUNCTIONS)
        raise FunctionCallError(f"there is no function {name!r}{way_out}")
    return function


def resolve(
    name: str, arguments: Sequence[Argument], target: LogicalType | None = None, may_be_empty: bool = True
) -> ResolvedCall:
    """The types of a call: what arguments are cast to, and the result's.

    Args:
        target: the type that the call names: that of CAST, TRY_CAST, of JSON_VALUE's RETURNING, and the interval of
            `(end - begin) DAY`.
        may_be_empty: whether an aggregate may have no row: not with GROUP BY and no FILTER, nor in a frame that has
            the current row.

    Raises:
        FunctionCallError: there is no such function, or it does not take these arguments.
    """
    function = find(name)
    parameters = function.parameters_for(len(arguments))
    if parameters is None:
        raise FunctionCallError(_refusal(function, arguments, f"{len(arguments)} arguments are not what it takes"))
    types = argument_types(parameters, arguments)
    if isinstance(types, str):
        raise FunctionCallError(_refusal(function, arguments, types))
    typed = tuple(Argument(new, given.literal) for new, given in zip(types, arguments, strict=True))
    try:
        result = function.result(TypedCall(typed, target))
    except ValueError as error:
        raise FunctionCallError(_refusal(function, arguments, str(error))) from error
    result = result.with_nullability(_may_be_null(function, types, result, may_be_empty))
    return ResolvedCall(function.name, types, result, function.is_deterministic, function.kind)


def _may_be_null(function: Function, types: Sequence[LogicalType], result: LogicalType, may_be_empty: bool) -> bool:
    has_null = any(one.nullable for one in types)
    return {
        Nullability.IF_ARGUMENT: has_null,
        Nullability.IF_EMPTY: has_null or may_be_empty,
        Nullability.ALWAYS: True,
        Nullability.NEVER: False,
        Nullability.AS_INFERRED: result.nullable,
    }[function.nullability]


def _refusal(function: Function, arguments: Sequence[Argument], why: str) -> str:
    call = f"{function.name}({', '.join(str(argument.type) for argument in arguments)})"
    return f"{call}: {why}; it is called as {function.usage()}"
