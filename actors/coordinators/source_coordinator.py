"""Runs a source's enumerator, and keeps track of which reader has which splits (Flink's SourceCoordinator)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from actors.coordinators.alignment import WatermarkAlignment
from actors.coordinators.base import CoordinatorContext, OperatorCoordinator
from actors.coordinators.split_assignments import SplitAssignments
from actors.protocol.operator_events import (
    AddSplits,
    NoMoreSplits,
    ReaderRegistered,
    SourceEvent,
    SplitRequested,
    WatermarkLimited,
    WatermarkReported,
)
from actors.user_code.errors import NO_VALUE, is_of_user, raise_attributed, user_function_error
from flinkray.batches.pickling import dumps
from flinkray.connectors.source import Source, SplitEnumerator
from flinkray.errors import CheckpointError, FlinkrayError, name_operator
from flinkray.persistence import loads
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.types.records import Millis


class _Waiting(Struct, frozen=True):
    """An event that waits for its reader; the splits in it are nobody's until then."""

    event: Any
    splits: tuple[Any, ...]


class SourceCoordinatorSnapshot(Struct, frozen=True):
    """A part of the checkpoint's format."""

    enumerator: Any
    waiting: dict[int, list[Any]]


class SourceCoordinator(OperatorCoordinator):
    """The enumerator of one source.

    What the enumerator raises fails the job. What it assigns to a reader that is not there (yet) waits for it, where
    Flink would fail. If a reader is lost, what it was given since the checkpoint that its successor starts from comes
    back through `add_splits_back`: the rest is in the state of the successor.

    A snapshot has the enumerator's state and the splits that wait, since no reader has those. Other events that wait
    are not in it: a reader without splits asks again.

    Args:
        alignment: the one that all sources of the job share, so that groups reach across them.
    """

    def __init__(
        self,
        operator_name: str,
        source: Source,
        strategy: WatermarkStrategy,
        context: CoordinatorContext,
        alignment: WatermarkAlignment,
    ) -> None:
        self._operator_name = operator_name
        self._source = source
        self._strategy = strategy
        self._alignment = alignment
        self._context = context
        self._enumerator: SplitEnumerator | None = None
        self._restored: SourceCoordinatorSnapshot | None = None
        self._registered: set[int] = set()
        self._assigned = SplitAssignments()
        self._waiting: dict[int, list[_Waiting]] = defaultdict(list)
        """Subtask -> events for its reader, which has not registered."""
        self._is_closed = False

    def start(self) -> None:
        def create() -> None:
            restored = self._restored
            state = None if restored is None else restored.enumerator
            self._enumerator = self._source.create_enumerator(_EnumeratorContext(self), state)
            self._enumerator.start()
            if restored is not None:
                self._give_back_waiting(self._enumerator, restored)

        self._guard("start", create)
        if self._strategy.alignment_group is not None:
            self._align_later()

    def handle_event(self, subtask_index: int, event: Any) -> None:
        enumerator = self._enumerator
        if enumerator is None or self._is_closed:
            return
        match event:
            case ReaderRegistered():
                self._register(subtask_index, enumerator)
            case SplitRequested():
                self._guard("handle_split_request", lambda: enumerator.handle_split_request(subtask_index))
            case SourceEvent():
                self._guard("handle_source_event", lambda: enumerator.handle_source_event(subtask_index, event.event))
            case WatermarkReported():
                group = self._strategy.alignment_group or ""
                self._alignment.report(group, (id(self), subtask_index), event.watermark)
            case _:
                raise TypeError(f"the coordinator of source {self._operator_name!r} cannot handle {event!r}")

    def subtask_failed(self, subtask_index: int, checkpoint_id: int | None = None) -> None:
        self._registered.discard(subtask_index)
        self._forget_watermark(subtask_index)
        splits = self._assigned.take(subtask_index, checkpoint_id)
        splits += [split for waiting in self._waiting.pop(subtask_index, []) for split in waiting.splits]
        enumerator = self._enumerator
        if splits and enumerator is not None:
            self._guard("add_splits_back", lambda: enumerator.add_splits_back(splits, subtask_index))

    def snapshot(self, checkpoint_id: int) -> bytes:
        enumerator = self._enumerator
        if enumerator is None:
            raise FlinkrayError(f"source {self._operator_name!r} has no enumerator: it could not be made")
        try:
            waiting = {
                subtask_index: [split for each in events for split in each.splits]
                for subtask_index, events in self._waiting.items()
            }
            state = dumps(SourceCoordinatorSnapshot(enumerator.snapshot_state(checkpoint_id), waiting))
        except BaseException as error:
            raise_attributed(self._operator_name, f"enumerator, snapshot_state({checkpoint_id})", NO_VALUE, error)
        self._assigned.cut(checkpoint_id)
        return state

    def restore(self, state: bytes) -> None:
        try:
            self._restored = loads(state)
        except Exception as error:
            raise CheckpointError(
                f"source {self._operator_name!r}: the state of its enumerator cannot be read "
                f"({type(error).__name__}: {error}); was a class of it renamed or removed?"
            ) from error

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._assigned.complete(checkpoint_id)
        enumerator = self._enumerator
        if enumerator is not None:
            notify = enumerator.notify_checkpoint_complete
            self._guard("notify_checkpoint_complete", lambda: notify(checkpoint_id))

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            # Where the job is restarted as a whole, its alignment group goes on with what takes its place.
            for subtask_index in range(self._context.parallelism):
                self._forget_watermark(subtask_index)
            if self._enumerator is not None:
                self._guard("close", self._enumerator.close)

    # -- for the enumerator's context ----------------------------------------------------------------------------

    @property
    def context(self) -> CoordinatorContext:
        return self._context

    @property
    def registered_readers(self) -> frozenset[int]:
        return frozenset(self._registered)

    def assign(self, splits: Sequence[Any], subtask_index: int) -> None:
        """Sends splits, and remembers whose they are."""
        if splits:
            self.send(subtask_index, AddSplits(dumps(list(splits))), tuple(splits))

    def send(self, subtask_index: int, event: Any, splits: tuple[Any, ...] = ()) -> None:
        """Sends to the reader, at once or as soon as it has registered; `splits` are its own from then on."""
        if not 0 <= subtask_index < self._context.parallelism:
            raise ValueError(f"there is no subtask {subtask_index}, the source has {self._context.parallelism}")
        if self._is_closed:
            return
        if subtask_index in self._registered:
            self._assigned.add(splits, subtask_index)
            self._context.send_event(subtask_index, event)
        else:
            self._waiting[subtask_index].append(_Waiting(event, splits))

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        def run() -> None:
            if not self._is_closed:
                self._guard("call_later", callback)

        self._context.call_later(delay_ms, run)

    # -- inside --------------------------------------------------------------------------------------------------

    def _register(self, subtask_index: int, enumerator: SplitEnumerator) -> None:
        self._registered.add(subtask_index)
        for waiting in self._waiting.pop(subtask_index, []):
            self.send(subtask_index, waiting.event, waiting.splits)
        self._guard("add_reader", lambda: enumerator.add_reader(subtask_index))

    def _give_back_waiting(self, enumerator: SplitEnumerator, restored: SourceCoordinatorSnapshot) -> None:
        """Gives back splits that no reader ever got, as if their readers, or those that are there instead, had been
        lost."""
        for former_index, splits in restored.waiting.items():
            if splits:
                enumerator.add_splits_back(splits, former_index % self._context.parallelism)

    def _forget_watermark(self, subtask_index: int) -> None:
        self._alignment.forget(self._strategy.alignment_group or "", (id(self), subtask_index))

    def _align_later(self) -> None:
        self._context.call_later(self._strategy.alignment_update_interval_ms or 0, self._align)

    def _align(self) -> None:
        if self._is_closed:
            return
        limit = self._alignment.limit(
            self._strategy.alignment_group or "", self._strategy.alignment_max_drift_ms or Millis(0)
        )
        for subtask_index in sorted(self._registered):
            self._context.send_event(subtask_index, WatermarkLimited(limit))
        self._align_later()

    def _guard(self, method: str, call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            if not is_of_user(error):
                raise
            if isinstance(error, FlinkrayError):
                name_operator(error, self._operator_name, "enumerator")
                self._context.fail_job(error)
                return
            failure = user_function_error(self._operator_name, f"enumerator, {method}", NO_VALUE, error)
            failure.__cause__ = error
            self._context.fail_job(failure)


class _EnumeratorContext:
    """Implements `flinkray.connectors.source.SplitEnumeratorContext`."""

    def __init__(self, coordinator: SourceCoordinator) -> None:
        self._coordinator = coordinator

    @property
    def parallelism(self) -> int:
        return self._coordinator.context.parallelism

    @property
    def registered_readers(self) -> frozenset[int]:
        return self._coordinator.registered_readers

    def now_ms(self) -> int:
        return self._coordinator.context.now_ms()

    def assign_splits(self, splits: Sequence[Any], subtask_index: int) -> None:
        self._coordinator.assign(splits, subtask_index)

    def signal_no_more_splits(self, subtask_index: int) -> None:
        self._coordinator.send(subtask_index, NoMoreSplits())

    def send_event_to_reader(self, subtask_index: int, event: Any) -> None:
        self._coordinator.send(subtask_index, SourceEvent(subtask_index, event))

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self._coordinator.call_later(delay_ms, callback)
