"""Running reduce of a keyed stream with the user's function."""

from __future__ import annotations

from typing import Any

from actors.keys import key_columns
from actors.operators.base import Operator
from actors.operators.columns import operator_label
from actors.state.key_index import KeyIndex
from actors.user_code import TaskRuntimeContext, UserFunctions, raise_attributed
from flinkray.batch import Batch
from flinkray.errors import InvalidProgramError
from flinkray.functions import as_callable
from flinkray.operator_factories import ReduceFactory
from flinkray.row_codec import RowEncoder, as_row, decode

_NOTHING = object()


class ReduceOperator(Operator):
    """`function(reduced so far, value)` per key: one result per row, in order; the first row of a key is its own.

    What the function returns is kept in the form in which it would come back from the stream.
    """

    def __init__(self, factory: ReduceFactory) -> None:
        self._factory = factory

    def setup(self, context: Any, output: Any) -> None:
        super().setup(context, output)
        self._index = KeyIndex()
        self._reduced: list[Any] = []

    def open(self) -> None:
        self._functions = UserFunctions(self.context, [self._factory.function])
        self._encoder = RowEncoder(self.context.operator_name, self.context.subtask, self._factory.output_type)
        self._function = as_callable(self._factory.function, "reduce")
        self._functions.open(TaskRuntimeContext(self.context))

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        selector = self.context.keys[0]
        if selector is None:
            raise InvalidProgramError(f"{operator_label(self.context)}: reduce needs key_by before it")
        ids = self._index.ids(key_columns(batch, selector, operator_label(self.context)))
        self._reduced.extend([_NOTHING] * (len(self._index) - len(self._reduced)))
        results = self._reduce(ids.tolist(), decode(batch))
        self.output.emit(self._encoder.encode(results, batch.timestamps))

    def _reduce(self, ids: list[int], values: list[Any]) -> list[Any]:
        function, reduced = self._function, self._reduced
        results: list[Any] = []
        append = self._encoder.appender(results)
        value: Any = None
        try:
            for key, value in zip(ids, values, strict=True):
                before = reduced[key]
                after = value if before is _NOTHING else as_row(function(before, value))
                reduced[key] = after
                append(after)
        except Exception as error:
            raise_attributed(self.context.operator_name, self.context.subtask, value, error)
        return results

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return {"keys": self._index.key_columns(), "reduced": list(self._reduced)}

    def initialize_state(self, restored: Any) -> None:
        if restored is not None and restored["keys"] is not None:
            self._index.ids(restored["keys"])
            self._reduced = list(restored["reduced"])

    def close(self) -> None:
        if hasattr(self, "_functions"):
            self._functions.close()
