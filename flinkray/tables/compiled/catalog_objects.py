"""Tables and functions of a catalog as a plan in a file has them, and what becomes of those that have changed since."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from flinkray.config.table_options import PLAN_RESTORE
from flinkray.errors import InvalidProgramError
from flinkray.tables.catalog import Catalog, UserFunction, View
from flinkray.tables.plans.tables import Table, TableColumn, TablePath

ALL, SCHEMA, ALL_ENFORCED, IDENTIFIER = "ALL", "SCHEMA", "ALL_ENFORCED", "IDENTIFIER"
Options = tuple[tuple[str, str], ...]


class PlanTable(Struct, frozen=True):
    """A table that a plan reads or writes."""

    table: Table
    """As the plan has it. A plan that was read from a file has no options yet that it does not hold."""
    name: TablePath | None
    """Where a catalog has it; None: it has no name, and the plan has all of it."""
    is_temporary: bool = False
    has_options: bool = True
    """Whether the plan has its options; those of a temporary table, and with `SCHEMA` of all, are the catalog's."""
    secrets: tuple[str, ...] = ()
    """Options that the plan does not hold, since they are secret."""
    hint: Options = ()
    """Options that the statement gave it."""
    secrets_of_hint: tuple[str, ...] = ()
    """Those of them that are secret, which a file does not hold."""

    @property
    def label(self) -> str:
        return ".".join(self.name or self.table.path)


class PlanFunction(Struct, frozen=True):
    """A function of the user's that a plan calls."""

    name: str
    signature: str
    """Its types as text."""

    @staticmethod
    def of(function: UserFunction) -> PlanFunction:
        parameters = "..." if function.parameters is None else ", ".join(map(str, function.parameters))
        kind = "" if function.is_deterministic else "not deterministic "
        return PlanFunction(
            function.name, f"a {kind}{function.kind} function of ({parameters}) giving {function.result}"
        )


def with_options(entry: PlanTable, catalog: Catalog, strategy: str) -> Table:
    """The table as it is now: with the options of the plan, of the catalog, or of both, as
    `table.plan.restore.catalog-objects` has it.

    Raises:
        InvalidProgramError: the catalog has no such table where it is needed, or one with another schema.
    """
    lost = [key for key in entry.secrets_of_hint if key not in dict(entry.hint)]
    if lost:
        raise InvalidProgramError(
            f"table {entry.label!r}: its statement gave it {', '.join(map(repr, lost))} in a hint, which are secret, "
            "so that the plan does not hold them: CREATE TABLE with them, and compile the plan again"
        )
    found = _in_catalog(entry, catalog, strategy)
    if found is not None:
        _check_schema(entry, found)
    if found is not None and (strategy == IDENTIFIER or not entry.has_options):
        options = dict(found.options)
    else:
        there = {} if found is None else dict(found.options)
        options = dict(entry.table.options) | {key: there[key] for key in entry.secrets if key in there}
    options |= dict(entry.hint)
    missing = [key for key in entry.secrets if key not in options]
    if missing:
        raise InvalidProgramError(
            f"table {entry.label!r}: its options {', '.join(map(repr, missing))} are secret, so that the plan does not "
            f"hold them: CREATE TABLE {entry.label} with them before, and leave {PLAN_RESTORE.key!r} at {ALL}"
        )
    return replace(entry.table, options=tuple(options.items()))


def _in_catalog(entry: PlanTable, catalog: Catalog, strategy: str) -> Table | None:
    """The table that the catalog has, where it is to be asked; None: it has none."""
    is_needed = entry.name is not None and (strategy == IDENTIFIER or not entry.has_options)
    if is_needed and strategy == ALL_ENFORCED and not entry.is_temporary:
        raise InvalidProgramError(
            f"table {entry.label!r}: the plan does not hold its options, and {PLAN_RESTORE.key!r} = {ALL_ENFORCED} "
            f"takes none of the catalog: set it to {ALL}, or compile the plan again with all that the catalog has"
        )
    if entry.name is None or (strategy == ALL_ENFORCED and not entry.is_temporary):
        return None
    found = catalog.find(entry.name)
    if isinstance(found, View):
        raise InvalidProgramError(f"{entry.label!r} is a view now, and was a table when the plan was compiled")
    if found is None and is_needed:
        kind = "TEMPORARY TABLE" if entry.is_temporary else "TABLE"
        raise InvalidProgramError(
            f"the plan needs the table {entry.label!r}, which no catalog has: CREATE {kind} {entry.label} before"
        )
    return found


def _check_schema(entry: PlanTable, found: Table) -> None:
    """
    Raises:
        InvalidProgramError: the table has other columns, another watermark or key than the plan was compiled for.
    """
    then, now = _described(entry.table), _described(found)
    if then == now:
        return
    former = [text for text in then if text not in now] or [f"the order {', '.join(_names(entry.table))}"]
    present = [text for text in now if text not in then] or [f"the order {', '.join(_names(found))}"]
    raise InvalidProgramError(
        f"table {entry.label!r} has changed since the plan was compiled: it had {', '.join(former)}, and has "
        f"{', '.join(present)} now. Go back to that, or compile the plan again: state of another plan is not its own"
    )


def _described(table: Table) -> list[str]:
    """The columns, the watermark and the keys of a table as texts."""
    found = list(map(_column_text, table.columns))
    if table.watermark is not None:
        found.append(f"WATERMARK FOR {table.watermark.column} AS {table.watermark.text}")
    if table.primary_key:
        found.append(f"PRIMARY KEY ({', '.join(table.primary_key)})")
    if table.partitioned_by:
        found.append(f"PARTITIONED BY ({', '.join(table.partitioned_by)})")
    return found


def _column_text(column: TableColumn) -> str:
    parts = [column.name, str(column.type)]
    if column.expression is not None:
        parts.append(f"AS {column.text}")
    if column.metadata_key:
        parts.append(f"METADATA FROM {column.metadata_key!r}{' VIRTUAL' if column.is_virtual else ''}")
    return " ".join(parts)


def _names(table: Table) -> list[str]:
    return [column.name for column in table.columns]


def known_functions(functions: tuple[PlanFunction, ...], catalog: Catalog) -> Mapping[str, UserFunction]:
    """The functions that a plan calls, by their names there.

    Raises:
        InvalidProgramError: one is not registered, or is another one.
    """
    found = {}
    for each in functions:
        function = catalog.function((each.name,))
        if function is None:
            raise InvalidProgramError(
                f"the plan calls the function {each.name!r}, which is not registered: create_temporary_function"
                f"({each.name!r}, ...) or CREATE FUNCTION before"
            )
        function = replace(function, name=each.name)
        now = PlanFunction.of(function).signature
        if now != each.signature:
            raise InvalidProgramError(
                f"the function {each.name!r} has changed since the plan was compiled: it was {each.signature}, and is "
                f"{now} now"
            )
        found[each.name] = function
    return found
