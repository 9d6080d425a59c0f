"""Names and types as they are written."""

from __future__ import annotations

from flinkray.tables.syntax.nodes import Node


class Name(Node, frozen=True):
    """One identifier, as written, without backticks."""

    text: str


class Path(Node, frozen=True):
    """Names with dots between them: a table, a function, a column, or a field of one."""

    names: tuple[Name, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The names without their places."""
        return tuple(name.text for name in self.names)


class TypeName(Node, frozen=True):
    """A type: its name in capitals, its numbers (length, precision, scale), and what it is made of.

    `not_null` is None where the text says neither NULL nor NOT NULL. RAW and STRUCTURED keep their texts in `texts`.
    """

    name: str
    numbers: tuple[int, ...] = ()
    elements: tuple[TypeName, ...] = ()
    fields: tuple[FieldType, ...] = ()
    texts: tuple[str, ...] = ()
    interval: IntervalUnits | None = None
    not_null: bool | None = None


class FieldType(Node, frozen=True):
    """A field of a ROW or STRUCTURED type."""

    name: Name
    type: TypeName
    comment: str | None = None


class IntervalUnits(Node, frozen=True):
    """`DAY(2) TO SECOND(3)`: units in the singular, in capitals."""

    first: str
    precision: int | None = None
    last: str | None = None
    fraction: int | None = None
