"""Parameters of functions, arguments of calls, and the types that follow from both."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from flinkray.tables.types.casts import can_cast
from flinkray.tables.types.common import Meeting, common_type
from flinkray.tables.types.logical import DATETIMES, NUMBERS, TEXTS, LogicalType, TypeRoot

COMPARED = "compared"
"""The name for `common` of parameters that are compared: a time with texts, too."""
ORDERED = "ordered"
"""The same of those that are compared by their order: a number with texts, too, which Flink refuses of `=`."""
_MEETINGS = dict.fromkeys((COMPARED, ORDERED), Meeting.COMPARISON)
_MEETINGS |= dict.fromkeys(("results", "elements", "keys", "values"), Meeting.RESULTS)
_MEETINGS["branches"] = Meeting.BRANCHES
"""What parameters of these names for `common` meet for; those of other names are arguments."""


class NoLiteral(enum.Enum):
    """The literal of an argument that is none."""

    NO_LITERAL = "not a literal"


NO_LITERAL: Final = NoLiteral.NO_LITERAL


class Argument(Struct, frozen=True):
    """An argument of a call: its type, and its value where it is a literal.

    A symbol, as the unit of EXTRACT or ON EMPTY's NULL, is an argument of type CHAR whose literal is its name.
    """

    type: LogicalType
    literal: Any = NO_LITERAL

    @property
    def is_literal(self) -> bool:
        return self.literal is not NO_LITERAL


class FunctionKind(enum.Enum):
    """Where a function may be called."""

    SCALAR = "scalar"  # row by row
    AGGREGATE = "aggregate"  # over a group, or OVER a window
    RANKING = "ranking"  # only OVER a window


class Nullability(enum.Enum):
    """When the result may be NULL."""

    IF_ARGUMENT = "if an argument may be NULL"
    ALWAYS = "always"
    IF_EMPTY = "if an argument may be NULL, or an aggregate may have no row"
    NEVER = "never"
    AS_INFERRED = "as the type says that the function infers"


class Parameter(Struct, frozen=True):
    """What one argument has to be.

    Args:
        takes: how a message names it: "a number", "a text".
        roots: types it may have. NULL always may.
        target: what it is cast to, where it has another root than that.
        common: arguments of the parameters with this name meet in their common type.
    """

    takes: str
    roots: frozenset[TypeRoot]
    target: LogicalType | None = None
    common: str = ""


class ResolvedCall(Struct, frozen=True):
    """A call with its types.

    Args:
        name: the function's own name, by which its kernel is found.
        argument_types: what arguments have to be cast to before the call, where that is not what they are.
        result_type: nullability included.
    """

    name: str
    argument_types: tuple[LogicalType, ...]
    result_type: LogicalType
    is_deterministic: bool
    kind: FunctionKind


class TypedCall(Struct, frozen=True):
    """A call whose arguments have the types that they are cast to, and the type that it names, as a CAST does."""

    arguments: tuple[Argument, ...]
    target: LogicalType | None = None

    @property
    def types(self) -> tuple[LogicalType, ...]:
        return tuple(argument.type for argument in self.arguments)


ResultOf = Callable[[TypedCall], LogicalType]
"""The type of a call's result; a ValueError says why it has none."""


class Function(Struct, frozen=True):
    """A function of SQL.

    Args:
        name: its own name; calls may also use one of `synonyms`.
        parameters: what it takes; the last of them `repeats` times over where it does, else once.
        optional: how many of the last parameters may be left out.
        repeats: how many of the last parameters may come again, as often as wanted, in this order.
        result: the type of its result.
        nullability: when the result may be NULL, which `result` need not say.
        varying: the parameters of a given number of arguments, where these rules do not say it.
        is_deterministic: whether the same arguments always give the same result.
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: ResultOf
    nullability: Nullability = Nullability.IF_ARGUMENT
    synonyms: tuple[str, ...] = ()
    optional: int = 0
    repeats: int = 0
    varying: Callable[[int], tuple[Parameter, ...] | None] | None = None
    is_deterministic: bool = True
    kind: FunctionKind = FunctionKind.SCALAR

    def parameters_for(self, count: int) -> tuple[Parameter, ...] | None:
        """The parameters of so many arguments; None: it does not take that many."""
        if self.varying is not None:
            return self.varying(count)
        least, most = len(self.parameters) - self.optional, len(self.parameters)
        if least <= count <= most:
            return self.parameters[:count]
        more = count - most
        if self.repeats and more > 0 and more % self.repeats == 0:
            return self.parameters + self.parameters[-self.repeats :] * (more // self.repeats)
        return None

    def usage(self) -> str:
        """How it is called, in words: `LEFT(a text, a whole number)`."""
        words = [parameter.takes for parameter in self.parameters]
        required = len(words) - self.optional
        written = [*words[:required], *(f"[{word}]" for word in words[required:]), *(["…"] if self.repeats else [])]
        return f"{self.name}({', '.join(written)})"


def argument_types(parameters: Sequence[Parameter], arguments: Sequence[Argument]) -> tuple[LogicalType, ...] | str:
    """What the arguments are cast to, or, where one does not suit, a sentence that says so."""
    types = []
    for number, (parameter, argument) in enumerate(zip(parameters, arguments, strict=True), 1):
        target = _coerced(parameter, argument.type)
        if target is None:
            return f"argument {number} has to be {parameter.takes}, and is {argument.type}"
        types.append(target)
    for group in {parameter.common for parameter in parameters} - {""}:
        members = [place for place, parameter in enumerate(parameters) if parameter.common == group]
        alike = [types[place] for place in members]
        common = common_type(alike, _MEETINGS.get(group, Meeting.ARGUMENTS))
        if common is None and group in (COMPARED, ORDERED):
            common = _beside_texts(alike, DATETIMES if group == COMPARED else DATETIMES | NUMBERS)
        if common is None:
            named = ", ".join(str(types[place]) for place in members)
            return f"its arguments have no common type: {named}; CAST them to one"
        for place in members:
            types[place] = common.with_nullability(types[place].nullable)
    return tuple(types)


def _beside_texts(types: Sequence[LogicalType], roots: frozenset[TypeRoot]) -> LogicalType | None:
    """The type of what is compared with texts, which become such; None if it is not one of `roots`."""
    others = [one for one in types if one.root not in TEXTS]
    return common_type(others) if others and all(one.root in roots for one in others) else None


def _coerced(parameter: Parameter, given: LogicalType) -> LogicalType | None:
    if given.root is TypeRoot.NULL:
        return given if parameter.target is None else parameter.target.as_nullable()
    if given.root not in parameter.roots:
        return None
    target = parameter.target
    if target is None or target.root is given.root or {target.root, given.root} <= TEXTS:
        return given
    return target.with_nullability(given.nullable) if can_cast(given, target.as_nullable()) else None
