"""Windows with the user's own functions: reduce, AggregateFunction, ProcessWindowFunction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from actors.operators.base import OperatorContext, Output
from actors.operators.process import operator_keys
from actors.operators.results import ResultCollector
from actors.operators.window_base import WindowOperatorBase
from actors.operators.window_times import PendingWindows
from actors.state.keyed_state import KeyedStateBackend, MemoryKeyedState
from actors.user_code import NO_VALUE, TaskRuntimeContext, UserFunctions, raise_attributed
from flinkray.batch import Batch
from flinkray.functions import AggregateFunction, ProcessWindowFunction, as_callable
from flinkray.keys import KeySelector
from flinkray.operator_factories import WindowFactory
from flinkray.row_codec import as_row, decode
from flinkray.state import KeyedStateStore
from flinkray.windowing import Window

_NOTHING = object()


class FiringContext:
    """The `context` of a ProcessWindowFunction or a plain function (flinkray.functions.WindowContext)."""

    def __init__(self, operator: RowWindowOperator) -> None:
        self._operator = operator
        self._window = Window(0, 0)

    def window(self) -> Window:
        return self._window

    def current_watermark(self) -> int:
        return self._operator.current_watermark

    def current_processing_time(self) -> int:
        return self._operator.context.clock.now_ms()

    def window_state(self) -> KeyedStateStore:
        return self._operator.window_state

    def global_state(self) -> KeyedStateStore:
        return self._operator.key_state


class RowWindowOperator(WindowOperatorBase):
    """Keeps per window and key a list of rows, a reduced value or an accumulator, and calls the user's function.

    Windows fire in order, in each the keys by first arrival. A late row that is still allowed makes its (key, window)
    fire again with everything so far, once per batch.
    """

    def __init__(self, factory: WindowFactory) -> None:
        super().__init__(factory.assigner, factory.allowed_lateness_ms, factory.late_tag)
        self._factory = factory
        self._waiting = PendingWindows()
        self._open = PendingWindows()
        self._panes: dict[int, dict[Any, Any]] = {}
        """Window start -> key -> contents."""
        self._add, self._result = _contents(factory)
        self._process = None if factory.process is None else as_callable(factory.process, "process")

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._selector: KeySelector | None = context.keys[0] if context.keys else None
        self._results = ResultCollector(context, output, self._factory.output_type)
        self._functions = UserFunctions(context, self._factory.user_functions)
        self._firing = FiringContext(self)
        # What the window function keeps: per key, and per key and window.
        self.key_state: KeyedStateBackend = MemoryKeyedState(context.operator_name, context.subtask, context.clock)
        self.window_state: KeyedStateBackend = MemoryKeyedState(context.operator_name, context.subtask, context.clock)

    def open(self) -> None:
        self._functions.open(TaskRuntimeContext(self.context, None if self._selector is None else self.key_state))

    def close(self) -> None:
        self._functions.close()

    @property
    def current_watermark(self) -> int:
        return self._watermark

    # -- rows

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        kept = self._in_time(batch)
        if kept is None:
            return
        times = self._times
        timestamps = self._timestamps(kept)
        last_starts = times.last_starts(timestamps).tolist()
        values = decode(kept)
        keys = [None] * len(values) if self._selector is None else operator_keys(kept, self._selector, self._where)
        fire_again: dict[int, dict[Any, None]] = {}
        for value, key, timestamp, last_start in zip(values, keys, timestamps.tolist(), last_starts, strict=True):
            starts = times.starts(last_start, timestamp) if times.is_sliced else (last_start,)
            for start in starts:
                if self._add_to(start, key, value):
                    fire_again.setdefault(start, {})[key] = None
        for start in sorted(fire_again):
            self._fire(start, fire_again[start])
        self._results.flush()

    def _add_to(self, start: int, key: Any, value: Any) -> bool:
        """Adds the value to a window that is not over; whether it has to fire again for the key."""
        if self._watermark >= start and self._times.is_over(start, self._watermark):
            return False
        pane = self._panes.get(start)
        if pane is None:
            pane = self._panes[start] = {}
            self._open.add(start)
            if not self._times.is_due(start, self._watermark):
                self._waiting.add(start)
        try:
            pane[key] = self._add(pane.get(key, _NOTHING), value)
        except Exception as error:
            raise_attributed(self.context.operator_name, self.context.subtask, value, error)
        return self._times.is_due(start, self._watermark)

    # -- watermarks

    def _fire_due(self, watermark: int) -> None:
        times = self._times
        for start in self._waiting.pop_while(lambda start: times.is_due(start, watermark)):
            self._fire(start, self._panes[start])
            self._results.flush_if_full()
        for start in self._open.pop_while(lambda start: times.is_over(start, watermark)):
            self._clear(start)
        self._results.flush()

    def _fire(self, start: int, keys: Iterable[Any]) -> None:
        window = Window(start, start + self._times.size)
        self._firing._window = window
        pane = self._panes[start]
        for key in keys:
            self._set_current(key, start)
            try:
                self._call(key, window, pane[key])
            except Exception as error:
                raise_attributed(self.context.operator_name, self.context.subtask, NO_VALUE, error)
        self._clear_current()

    def _set_current(self, key: Any, start: int) -> None:
        self.key_state.set_current_key(key)
        self.window_state.set_current_key((key, start))

    def _clear_current(self) -> None:
        self.key_state.clear_current_key()
        self.window_state.clear_current_key()

    def _call(self, key: Any, window: Window, contents: Any) -> None:
        timestamp = window.max_timestamp()
        result = self._result(contents)
        if self._process is None:
            self._results.add(result, timestamp)
        else:
            self._results.collect(self._process(key, self._firing, result), timestamp)

    def _clear(self, start: int) -> None:
        keys = self._panes.pop(start)
        process = self._factory.process
        if isinstance(process, ProcessWindowFunction):
            self._firing._window = Window(start, start + self._times.size)
            for key in keys:
                self._set_current(key, start)
                try:
                    process.clear(self._firing)
                except Exception as error:
                    raise_attributed(self.context.operator_name, self.context.subtask, NO_VALUE, error)
            self._clear_current()

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """Shares values with the live state: to be pickled before the next row."""
        panes = {
            start: [(key, list(contents) if isinstance(contents, list) else contents) for key, contents in pane.items()]
            for start, pane in self._panes.items()
        }
        return {
            "panes": panes,
            "waiting": self._waiting.starts(),
            "watermark": self._watermark,
            "key_state": self.key_state.snapshot(),
            "window_state": self.window_state.snapshot(),
        }

    def initialize_state(self, restored: Any) -> None:
        if restored is None:
            return
        for start, entries in restored["panes"].items():
            self._panes[start] = dict(entries)
            self._open.add(start)
        for start in restored["waiting"]:
            self._waiting.add(start)
        self._watermark = restored["watermark"]
        self.key_state.restore(restored["key_state"])
        self.window_state.restore(restored["window_state"])


def _contents(factory: WindowFactory) -> tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]:
    """How contents take in a value (from _NOTHING at first), and what a firing makes of them."""
    goes_on = factory.process is not None
    if factory.reduce is not None:
        reduce = as_callable(factory.reduce, "reduce")
        return (
            lambda contents, value: value if contents is _NOTHING else as_row(reduce(contents, value)),
            (lambda contents: [contents]) if goes_on else (lambda contents: contents),
        )
    if factory.aggregate is not None:
        aggregate = factory.aggregate
        assert isinstance(aggregate, AggregateFunction)
        return (
            lambda contents, value: aggregate.add(
                value, aggregate.create_accumulator() if contents is _NOTHING else contents
            ),
            (lambda contents: [aggregate.get_result(contents)]) if goes_on else aggregate.get_result,
        )
    return _append, list


def _append(contents: Any, value: Any) -> list[Any]:
    if contents is _NOTHING:
        return [value]
    contents.append(value)
    return contents  # type: ignore[no-any-return]
