"""Calls with their types: arguments are cast to what the function takes, and its result has the type that follows."""

from __future__ import annotations

from collections.abc import Sequence

from flinkray.tables.binding.constants import symbol
from flinkray.tables.binding.context import Context
from flinkray.tables.catalog import UserFunction
from flinkray.tables.functions.registry import FunctionCallError, resolve
from flinkray.tables.functions.signatures import NO_LITERAL, Argument, ResolvedCall
from flinkray.tables.plans.expressions import BoundExpression, Call, Constant, is_null_constant
from flinkray.tables.syntax.expressions import Call as CallNode
from flinkray.tables.syntax.nodes import Node
from flinkray.tables.types.casts import can_cast_implicitly
from flinkray.tables.types.logical import DATETIMES, TEXTS, LogicalType, TimestampType

_EQUATE = ("=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")


def plain(kind: LogicalType) -> LogicalType:
    """The type, not as a time attribute: what is computed of one is none."""
    return kind.as_attribute(None) if isinstance(kind, TimestampType) else kind


def cast_to(expression: BoundExpression, target: LogicalType) -> BoundExpression:
    """The expression as a value of a type, with a cast where it is of another one."""
    source = expression.type
    if plain(source).as_nullable() == plain(target).as_nullable():
        return expression
    if is_null_constant(expression):
        return Constant(target.as_nullable(), None)
    return Call(plain(target).with_nullability(source.nullable), "CAST", (expression,))


def _equated(expression: BoundExpression, target: LogicalType) -> BoundExpression:
    """A value that may equal others of a type: as in Flink, a column's text that is no time is NULL beside times."""
    is_text = expression.type.root in TEXTS and not isinstance(expression, Constant)
    if is_text and target.root in DATETIMES:
        return Call(plain(target).as_nullable(), "TRY_CAST", (expression,))
    return cast_to(expression, target)


def resolved(
    node: Node,
    name: str,
    arguments: Sequence[BoundExpression],
    context: Context,
    target: LogicalType | None = None,
    may_be_empty: bool = True,
) -> ResolvedCall:
    """The types of a call of a built-in function; `may_be_empty` says of an aggregate whether it may have no row.

    Raises:
        SqlValidationError: there is none of that name, or it does not take these arguments.
    """
    given = [Argument(each.type, each.value if isinstance(each, Constant) else NO_LITERAL) for each in arguments]
    try:
        return resolve(name, given, target, may_be_empty)
    except FunctionCallError as error:
        context.fail(node, error)


def call(
    node: Node, name: str, arguments: Sequence[BoundExpression], context: Context, target: LogicalType | None = None
) -> BoundExpression:
    """A call of a built-in function."""
    found = resolved(node, name, arguments, context, target)
    to_type = _equated if found.name in _EQUATE else cast_to
    cast = tuple(to_type(each, kind) for each, kind in zip(arguments, found.argument_types, strict=True))
    result = found.result_type if found.name == "PROCTIME" else plain(found.result_type)
    if found.name in ("=", "<>") and any(each.type.nullable for each in cast):
        result = result.as_nullable()
    return Call(result, found.name, cast, found.is_deterministic)


def user_call(
    node: Node, function: UserFunction, arguments: Sequence[BoundExpression], context: Context
) -> tuple[BoundExpression, ...]:
    """The arguments of a call of a user's function, cast to its parameters."""
    if function.parameters is None:
        return tuple(arguments)
    wanted = ", ".join(map(str, function.parameters))
    if len(arguments) != len(function.parameters):
        context.fail(
            node, f"{function.name} takes {len(function.parameters)} arguments ({wanted}), not {len(arguments)}"
        )
    for number, (given, kind) in enumerate(zip(arguments, function.parameters, strict=True), 1):
        if not can_cast_implicitly(given.type, kind.as_nullable()):
            context.fail(node, f"argument {number} of {function.name} is {given.type}, where it takes {kind}")
    return tuple(cast_to(given, kind) for given, kind in zip(arguments, function.parameters, strict=True))


def checked_cast(
    node: Node, expression: BoundExpression, target: LogicalType, what: str, context: Context
) -> BoundExpression:
    """A value for a column of a table, cast to its type where that loses nothing, as Flink does."""
    if not can_cast_implicitly(expression.type, target.as_nullable()):
        context.fail(node, f"{what} is {target}, and the query gives {expression.type}; CAST it")
    return cast_to(expression, target)


# -- what JSON functions have among their arguments


def with_json_clauses(
    node: CallNode, name: str, arguments: list[BoundExpression], defaults: dict[str, BoundExpression]
) -> list[BoundExpression]:
    """The arguments of a JSON function with its clauses as keywords, as `functions.json` takes them.

    Args:
        defaults: the values of `DEFAULT ... ON EMPTY` and `ON ERROR`, by the word at the end.
    """
    words = [clause.words for clause in node.clauses if clause.words != "RETURNING"]
    endings = {each.rpartition(" ON ")[2]: each.rpartition(" ON ")[0] for each in words if " ON " in each}
    if name in ("JSON_OBJECT", "JSON_ARRAY", "JSON_OBJECTAGG", "JSON_ARRAYAGG"):
        otherwise = "ABSENT" if name.startswith("JSON_ARRAY") else "NULL"
        return [symbol(endings.get("NULL", otherwise)), *arguments]
    if name == "JSON_EXISTS":
        return [*arguments, symbol(endings["ERROR"])] if "ERROR" in endings else arguments
    wrapper = next((each for each in words if "WRAPPER" in each), "WITHOUT WRAPPER")
    if name == "JSON_QUERY":
        kind = "WITHOUT" if wrapper.startswith("WITHOUT") else "UNCONDITIONAL"
        arguments = [*arguments, symbol("CONDITIONAL" if " CONDITIONAL" in wrapper else kind)]
    if not endings:
        return arguments
    for when in ("EMPTY", "ERROR"):
        behavior = endings.get(when, "NULL")
        arguments = [*arguments, symbol(behavior)]
        if name == "JSON_VALUE":
            arguments.append(defaults.get(when, NULL))
    return arguments


NULL = Constant(symbol("").type.as_nullable(), None)
