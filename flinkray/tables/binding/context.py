"""What all that binds a statement shares, and how it says that something is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from msgspec import Struct

from flinkray.errors import InvalidProgramError, SqlValidationError
from flinkray.tables.catalog import Catalog
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.syntax.expansion import Expansion
from flinkray.tables.syntax.names import Name
from flinkray.tables.syntax.nodes import Node


class CommonTablePlan(Struct, frozen=True):
    """A table of WITH; without a plan it is the one of WITH RECURSIVE whose query is bound."""

    plan: Plan | None


class Context(Struct, frozen=True):
    """The text that is bound, the catalog, and the tables of WITH by name.

    Args:
        joins_texts: `+` beside a text joins texts, as in the Table API; SQL has `||` for that alone.
        expansion: is told what names are found to be.
        warns: whether hints that have no effect are in the log; not where the text was bound before.
    """

    sql: str
    catalog: Catalog
    common_tables: Mapping[str, CommonTablePlan] = {}
    joins_texts: bool = False
    expansion: Expansion | None = None
    warns: bool = True

    def new_names(self, names: tuple[Name, ...], count: int, node: Node) -> tuple[str, ...]:
        """The names that a list gives so many columns; fails where they are others, or one is there twice."""
        if len(names) != count:
            self.fail(node, f"these are {len(names)} names for {count} columns")
        found: dict[str, None] = {}
        for name in names:
            if name.text in found:
                self.fail(name, f"there are two columns {name.text!r}")
            found[name.text] = None
        return tuple(found)

    def fail(self, node: Node, message: str | InvalidProgramError) -> NoReturn:
        """Raise that a node of the statement is wrong."""
        cause = message if isinstance(message, InvalidProgramError) else None
        raise SqlValidationError(str(message), self.sql, node.span.start, node.span.end) from cause
