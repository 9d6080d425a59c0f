"""Window joins and co-groups with any assigner, trigger and evictor: windows over the union of both inputs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from actors.operators.contract.operator import OperatorContext, Output
from actors.operators.functions.flush_policy import FlushPolicy
from actors.operators.joins.pairs import PairLayout, both_keys
from actors.operators.windows.general.merging import check_merging
from actors.operators.windows.general.operator import GeneralWindowOperator
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import ListMode, OperatorSnapshot, RestoredState
from actors.user_code.errors import raise_attributed
from actors.user_code.functions import UserFunctions
from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import RowEncoder
from flinkray.errors import TypeMismatchError
from flinkray.functions.interfaces import WindowContext, as_callable
from flinkray.transformations.operator_factories import WindowCoGroupFactory, WindowFactory
from flinkray.types.records import Kind, RecordType
from flinkray.types.type_unification import unify_types
from flinkray.windows.tagged_union import TaggedUnion

_TYPES = "types of both inputs"


class UnionWindowOperator(GeneralWindowOperator):
    """Base: the general window operator over rows of both inputs, each tagged with its input.

    As in Flink, so that rows of both inputs make sessions grow and merge, and count for triggers and evictors.
    """

    def __init__(self, factory: WindowCoGroupFactory) -> None:
        windows = WindowFactory(
            assigner=factory.assigner,
            process=self._split,
            allowed_lateness_ms=factory.allowed_lateness_ms,
            late_tag=factory.late_tag,
            output_type=factory.output_type,
            trigger=factory.trigger,
            evictor=factory.evictor,
        )
        check_merging(windows)
        super().__init__(windows)
        self._co_group = factory
        self._is_first = True

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._selectors = both_keys(context, self._where)
        self._functions = UserFunctions(context, self._co_group.user_functions)

    @property
    def number_of_inputs(self) -> int:
        return 2

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._is_first = input_index == 0
        self._selector = self._selectors[input_index]
        super().process_batch(batch)

    def _add(self, value: Any, time: int | None, row: int) -> bool:
        return super()._add(TaggedUnion(self._is_first, value), time, row)

    def _split(self, _key: Any, _context: WindowContext, elements: Iterable[TaggedUnion]) -> Iterable[Any] | None:
        sides: tuple[list[Any], list[Any]] = ([], [])
        for element in elements:
            sides[not element.is_first].append(element.value)
        return self._results_of(*sides)

    @abstractmethod
    def _results_of(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        """The results of a key and window that fires, with the rows of both inputs in order of arrival."""

    def _call(self, function: Any, first: Any, second: Any) -> Any:
        try:
            return function(first, second)
        except BaseException as error:
            raise_attributed(self.context.operator_name, self.context.subtask, (first, second), error)


class UnionCoGroupOperator(UnionWindowOperator):
    """Calls the function with the rows of both inputs."""

    def __init__(self, factory: WindowCoGroupFactory) -> None:
        super().__init__(factory)
        assert factory.function is not None
        self._function = as_callable(factory.function, "co_group")

    def _results_of(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        results: Iterable[Any] | None = self._call(self._function, first, second)
        return results


class UnionJoinFunctionOperator(UnionWindowOperator):
    """Calls the function for every pair of rows; what it returns is one row."""

    def __init__(self, factory: WindowCoGroupFactory) -> None:
        super().__init__(factory)
        assert factory.function is not None
        self._function = as_callable(factory.function, "join")

    def _results_of(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        for left in first:
            for right in second:
                yield self._call(self._function, left, right)


class UnionJoinOperator(UnionWindowOperator):
    """The inner join as columns.

    Rows are Python values while they are in windows, since triggers and evictors look at them; pairs become columns
    again as many at a time as make a batch, with the types that both inputs had.
    """

    def __init__(self, factory: WindowCoGroupFactory) -> None:
        super().__init__(factory)
        self._types: list[RecordType | None] = [None, None]
        self._forget_pairs()

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._layout = PairLayout(self._selectors[1], self._where)
        self._flush_policy = FlushPolicy(context)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._layout.check_kind(batch.kind)
        self._widen(input_index, batch.record_type)
        super().process_batch(batch, input_index)

    def _widen(self, input_index: int, new: RecordType) -> None:
        known = self._types[input_index]
        self._types[input_index] = new if known is None else self._wider(known, new)

    def _wider(self, known: RecordType, new: RecordType) -> RecordType:
        """The narrowest type that holds the rows of both."""
        if known == new:
            return known
        fields = {field.name: field.type for field in known.schema}
        for field in new.schema:
            merged = unify_types(fields.get(field.name, field.type), field.type)
            if merged is None or known.kind is not new.kind:
                raise TypeMismatchError(f"{self._label}: rows were {known} and are {new} now; cast them to one type")
            fields[field.name] = merged
        return RecordType(known.kind, pa.schema(list(fields.items())))

    def _forget_pairs(self) -> None:
        self._pairs: tuple[list[Any], list[Any]] = ([], [])
        self._pair_times: list[int] = []

    def _results_of(self, first: list[Any], second: list[Any]) -> None:
        timestamp = self._window.max_timestamp()
        for left in first:
            start = 0
            while start < len(second):
                rights = second[start : start + self._flush_policy.rows_until_check(len(self._pair_times))]
                start += len(rights)
                self._pairs[0].extend([left] * len(rights))
                self._pairs[1].extend(rights)
                self._pair_times.extend([timestamp] * len(rights))
                if self._flush_policy.is_due(len(self._pair_times)):
                    self._flush_pairs()

    def _flush_pairs(self) -> None:
        if not self._pair_times:
            return
        left, right = (self._columns(index) for index in (0, 1))
        rows = Batch(self._layout.pairs(left, right), Kind.ROW, pa.array(self._pair_times, pa.int64()))
        self.output.emit(rows)
        self._forget_pairs()
        self._flush_policy.passed(rows.num_rows, rows.nbytes)

    def _columns(self, index: int) -> pa.RecordBatch:
        encoder = RowEncoder(self.context.operator_name, self.context.subtask, self._types[index])
        return encoder.encode(self._pairs[index], None).data

    def _end_round(self) -> None:
        self._flush_pairs()
        super()._end_round()

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot | None:
        snapshot = super().snapshot_state(checkpoint_id, options)
        assert snapshot is not None
        snapshot.add_list(_TYPES, [tuple(self._types)], ListMode.GATHERED)
        return snapshot

    def initialize_state(self, restored: RestoredState | None) -> None:
        super().initialize_state(restored)
        for types in [] if restored is None else restored.items(_TYPES):
            for index, record_type in enumerate(types):
                if record_type is not None:
                    self._widen(index, record_type)
