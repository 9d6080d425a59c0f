"""Calls of the user's functions in tables: with the whole row, and under names that statements know."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from flinkray.errors import InvalidProgramError
from flinkray.tables.api.expression import Expression
from flinkray.tables.api.queries import function_of, read_expression, reference, rewritten, select, table
from flinkray.tables.api.user_functions import UNNAMED, RowCall, UserDefinedFunctionWrapper
from flinkray.tables.syntax import expressions as syntax
from flinkray.tables.syntax import queries
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.nodes import Node
from flinkray.tables.types.logical import RowType


def called(source: Any, function: Any) -> Expression:
    """A call of a function: as it is, or of the function alone, which then gets the whole row."""
    if isinstance(function, UserDefinedFunctionWrapper | RowCall):
        return function.of_rows(source.columns)
    return read_expression(function)


def registered(environment: Any, expression: Expression) -> Expression:
    """The expression with the names under which its functions are known."""
    if not expression._functions:
        return expression
    names = {f"{UNNAMED}{id(each)}": environment._register_function(each) for each in expression._functions}

    def change(node: Node) -> Node:
        if isinstance(node, syntax.Call) and node.function.texts[-1] in names:
            return replace(node, function=Path((Name(names[node.function.texts[-1]]),)))
        return node

    return Expression(rewritten(expression._node, change), expression._names)


def alias_of(call: Expression) -> queries.Alias | None:
    """The names that a call of a table function gives its columns."""
    if not call._names:
        return None
    return queries.Alias(Name("rows"), tuple(map(Name, call._names)))


def mapped(source: Any, function: Any) -> Any:
    """The columns of the ROW that a function gives for each row."""
    call = source._known(called(source, function))
    found = source.select(call.alias("row"))
    kind = found.row_type.types[0]
    if not isinstance(kind, RowType):
        return found.alias(call._names[0] if call._names else "f0")
    names = call._names or kind.names
    if len(names) != len(kind.names):
        raise InvalidProgramError(f"map: {len(names)} names for the {len(kind.names)} columns that the function gives")
    fields = [Expression(reference("row")).get(name).alias(new) for name, new in zip(kind.names, names, strict=True)]
    return found.select(*fields)


def flat_mapped(source: Any, function: Any) -> Any:
    """The rows that a table function gives for each row."""
    call = source._known(called(source, function))
    own = queries.TableFunction(function_of(call, "flat_map"), alias_of(call), lateral=True)
    joined = source._made(
        select(
            (queries.SelectItem(syntax.Star()),),
            queries.Join("INNER", table("self"), own, condition=syntax.Truth(True)),
        )
    )
    return joined.drop_columns(*map(Expression, map(reference, source.columns)))
