"""Session windows with built-in aggregates: columns in, one batch of results per watermark out."""

from __future__ import annotations

from actors.operators.aggregates.aggregate_columns import AggregateColumns
from actors.operators.windows.base.results import WindowBounds, emit_windows
from actors.operators.windows.sessions.contents import AggregatedSessions, SessionContents
from actors.operators.windows.sessions.operator_base import SessionOperatorBase
from actors.operators.windows.sessions.session_table import SessionIds
from flinkray.transformations.operator_factories import WindowFactory


class ColumnarSessionOperator(SessionOperatorBase):
    """Result columns: the key's, `window_start` and `window_end` (ms), then the aggregates."""

    def __init__(self, factory: WindowFactory) -> None:
        super().__init__(factory)
        self._given = factory.aggregates
        self._bounds_type = factory.bounds_type

    def _make_contents(self) -> SessionContents:
        self._aggregates = AggregateColumns(self._given, self._where)
        return AggregatedSessions(self._aggregates, self._where)

    def _emit(self, sessions: SessionIds) -> None:
        bounds = WindowBounds.of(*self._store.windows(sessions))
        results = list(zip(self._aggregates.names, self._aggregates.results(sessions), strict=True))
        keys = self._store.keys(sessions)
        key_columns = [] if keys is None else list(zip(keys.schema.names, keys.columns, strict=True))
        emit_windows(self.context, self.output, key_columns, bounds, results, self._bounds_type)
