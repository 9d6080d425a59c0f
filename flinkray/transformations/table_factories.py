"""What each operator of tables does. The planner of SQL makes these (`flinkray.tables.lowering`): it has found out
which changes come and which are wanted, so that the operators take what they get."""

from __future__ import annotations

from flinkray.transformations.operator_factories import TableFactory


class DeduplicateFactory(TableFactory, frozen=True, kw_only=True):
    """The first or the last row of each key, by the order of a time column, or of arrival."""

    time: int | None
    """The column; None: rows are ordered by their arrival."""
    keeps_last: bool
