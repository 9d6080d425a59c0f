"""Rows on their way into a table: what it demands of them, and which of them its sink gets where."""

from __future__ import annotations

from collections.abc import Sequence

from flinkray.tables.lowering.contract import Lowering, SinkOptions, Unexecutable, keyed
from flinkray.tables.lowering.ranks import last_of_keys
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.tables import Table
from flinkray.tables.plans.upsert_keys import upsert_keys
from flinkray.tables.types.logical import MAX_LENGTH, LengthType
from flinkray.transformations.table_factories import ConstraintsFactory
from flinkray.transformations.transformation import PhysicalTransformation, Transformation, own_parallelism
from flinkray.types.changelogs import Changes
from flinkray.types.keys import ColumnKey


def for_changes(plan: Plan, table: Table, lowering: Lowering) -> Transformation:
    """The rows of a plan for a sink that takes all changes, or that takes inserts, which they are then."""
    return _checked(lowering.of(plan), lowering.changes(plan), table, lowering.options.sinks)


def for_upserts(plan: Plan, key: Sequence[int], table: Table, lowering: Lowering) -> Transformation:
    """The rows of a plan for a sink that replaces rows of equal key.

    Where several rows may have the same key at a time, the one that came last is given, and when that goes, the one
    that came last before it (Flink's SinkUpsertMaterializer).

    Args:
        key: the columns of the sink's primary key.
    Raises:
        Unexecutable: several rows may have the same key at a time, and the program refuses that.
    """
    options, changes = lowering.options.sinks, lowering.changes(plan)
    # Where a part of the key tells rows apart, an update may change the rest of it: the row of the old key has to go,
    # of which a sink that takes no -U would not hear.
    may_conflict = not changes.is_insert_only and frozenset(key) not in upsert_keys(plan)
    if may_conflict and options.refuses_conflicts:
        raise Unexecutable(plan, _CONFLICT)
    is_kept = may_conflict if options.materialize == "AUTO" else options.materialize == "FORCE"
    if not is_kept or changes.is_insert_only:
        rows, changes = lowering.of(plan, before=False), lowering.changes(plan, before=False)
        return _checked(rows, changes, table, options, deletes_by_key=True)
    return last_of_keys(plan, key, lowering, _checked(lowering.of(plan), changes, table, options))


_CONFLICT = (
    "several of its rows may have the same primary key at a time, of which the last one would stay, and "
    "table.exec.sink.require-on-conflict is set; group or deduplicate by that key"
)


def by_key(rows: Transformation, table: Table, parallelism: int | None, shuffle: str) -> Transformation:
    """The rows as they go to the subtasks of a sink: those of one primary key to the same one, where they would
    overtake each other else.

    Args:
        parallelism: of the sink; None: that of the rows.
        shuffle: AUTO, FORCE or NONE.
    """
    differs = parallelism is not None and parallelism != own_parallelism(rows)
    is_wanted = {"AUTO": differs, "FORCE": True, "NONE": False}[shuffle]
    if not is_wanted or parallelism == 1 or not table.primary_key:
        return rows
    return keyed(rows, ColumnKey(table.primary_key))


def _checked(
    rows: Transformation, changes: Changes, table: Table, options: SinkOptions, *, deletes_by_key: bool = False
) -> Transformation:
    """The rows with what the types of the table's columns demand of them."""
    written = table.written_row_type
    not_null = tuple(place for place, kind in enumerate(written.types) if not kind.nullable)
    lengths = tuple(place for place, kind in enumerate(written.types) if _has_length(kind))
    if options.lengths == "IGNORE":
        lengths = ()
    if not not_null and not lengths:
        return rows
    return PhysicalTransformation(
        name="ConstraintEnforcer",
        description=f"of {table.path[2]}",
        factory=ConstraintsFactory(
            input_rows=(written,),
            rows=written,
            takes=(changes,),
            gives=changes,
            table=table.path[2],
            not_null=not_null,
            deletes_by_key=deletes_by_key,
            drops=options.nulls == "DROP",
            lengths=lengths,
            trims=options.lengths == "TRIM_PAD",
        ),
        input_transformations=(rows,),
        parallelism=own_parallelism(rows),
    )


def _has_length(kind: object) -> bool:
    return isinstance(kind, LengthType) and (kind.is_fixed or kind.length < MAX_LENGTH)
