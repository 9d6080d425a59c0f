"""Expressions whose names and types are known: what a plan holds, and what is computed on columns."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from flinkray.tables.functions.registry import resolve
from flinkray.tables.functions.signatures import Argument, ResolvedCall
from flinkray.tables.types.logical import LogicalType


class BoundColumn(Struct, frozen=True):
    """A column of the input, by its place."""

    place: int
    type: LogicalType


class BoundLiteral(Struct, frozen=True):
    """A constant: None, or a Python value that Arrow takes as one of the type.

    A date, time or interval may also be the whole number that its Arrow type holds: days since 1970, units of the type
    since 1970 or of the day, months, milliseconds.
    """

    value: Any
    type: LogicalType


class BoundCall(Struct, frozen=True):
    """A call with its arguments, which are cast to the types that it asks for."""

    resolved: ResolvedCall
    arguments: tuple[BoundExpression, ...]

    @property
    def type(self) -> LogicalType:
        return self.resolved.result_type


BoundExpression = BoundColumn | BoundLiteral | BoundCall


def bound_call(name: str, *arguments: BoundExpression, target: LogicalType | None = None) -> BoundCall:
    """A call of a function by its name.

    Raises:
        FunctionCallError: there is no such function, or it does not take these arguments.
    """
    given = [
        Argument(argument.type, argument.value) if isinstance(argument, BoundLiteral) else Argument(argument.type)
        for argument in arguments
    ]
    return BoundCall(resolve(name, given, target), arguments)
