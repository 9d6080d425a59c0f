"""Row functions: neighbouring maps, filters and flat_maps of a chain as one Python loop per batch.

The loop is generated source, compiled once per operator: for map -> filter -> flat_map it reads

    for v0 in values:
        v1 = f0(v0)
        if not f1(v1):
            continue
        extend(f2(v1))

so a row costs the calls and little else, and crosses the Arrow boundary once in and once out. What one function hands
the next is brought into the form in which it would come out of a batch, so fusing changes nothing that a function can
see. Where a declared type needs Arrow for that (decimals, lists, ...), the chain is cut into two loops; and between all
functions for the rows of a changelog, as each of them sees of which kind a row is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product, repeat
from types import CodeType, TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from actors.columns.take import slices
from actors.operators.contract.operator import Operator, OperatorContext, Output
from actors.operators.functions.flush_policy import FlushPolicy
from actors.operators.functions.text_splitting import is_split, split_texts
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.user_code.errors import FUSED_FILENAME, NO_VALUE, raise_attributed
from actors.user_code.functions import TaskRuntimeContext, UserFunctions
from flinkray.batches.batch import LARGEST_OVER_TARGET, Batch
from flinkray.batches.numpy_arrays import INT64, as_numpy, fixed_width, from_numpy
from flinkray.batches.row_codec import RowEncoder, as_row, decode
from flinkray.batches.value_columns import PLAIN_TYPES
from flinkray.functions.interfaces import as_callable
from flinkray.transformations.operator_factories import FilterFactory, FlatMapFactory, MapFactory, OperatorFactory
from flinkray.types.records import SCALAR_COLUMN, Kind, RecordType
from flinkray.types.rows import Row, row_class

_TEXTS = RecordType(Kind.SCALAR, pa.schema([(SCALAR_COLUMN, pa.string())]))


class RowStage(Struct, frozen=True):
    """One function of a chain."""

    kind: str
    """ "map", "filter" or "flat_map"."""
    name: str
    function: Any
    output_type: RecordType | None

    @staticmethod
    def of(factory: OperatorFactory, name: str) -> RowStage:
        match factory:
            case MapFactory():
                return RowStage("map", name, factory.function, factory.output_type)
            case FlatMapFactory():
                return RowStage("flat_map", name, factory.function, factory.output_type)
            case FilterFactory():
                return RowStage("filter", name, factory.function, None)
        raise TypeError(f"{type(factory).__name__} is no row function")


class FusedRowOperator(Operator):
    """A chain of row functions. Event times follow their rows; rows of a flat_map have that of the row they come from.

    An operator's output is cut into batches of the target size; a flat_map never builds more than that at once.
    """

    def __init__(self, factories: Sequence[OperatorFactory], names: Sequence[str]) -> None:
        self._stages = [RowStage.of(factory, name) for factory, name in zip(factories, names, strict=True)]
        self._functions: list[UserFunctions] = []

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._functions = [UserFunctions(context, [stage.function], stage.name) for stage in self._stages]

    def initialize_state(self, restored: RestoredState | None) -> None:
        for functions in reversed(self._functions):
            functions.initialize_state(restored)

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        snapshot = OperatorSnapshot()
        for functions in self._functions:
            functions.snapshot_state(checkpoint_id, snapshot)
        return snapshot

    def open(self) -> None:
        self._loops = [_FusedLoop(stages, self.context) for stages in _cut(self._stages)]
        self._changelog_loops: list[_FusedLoop] | None = None
        """A loop for each function; None: no row of a changelog has come."""
        for stage, functions in reversed(list(zip(self._stages, self._functions, strict=True))):
            functions.open(TaskRuntimeContext(self.context, operator_name=stage.name))

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        loops = self._loops if batch.kinds is None else self._loops_of_changelog()
        for result in self._run(batch.without_keys(), loops):
            for part in self._cut_by_size(result):
                self.output.emit(part)

    def _loops_of_changelog(self) -> list[_FusedLoop]:
        if self._changelog_loops is None:
            self._changelog_loops = [_FusedLoop([stage], self.context) for stage in self._stages]
        return self._changelog_loops

    def _run(self, batch: Batch, loops: Sequence[_FusedLoop]) -> Iterator[Batch]:
        if not loops:
            yield batch
            return
        for result in loops[0].run(batch):
            self.context.cancellation.check()  # the loops behind this one may drop all rows
            yield from self._run(result, loops[1:])

    def _cut_by_size(self, batch: Batch) -> Iterator[Batch]:
        target_rows, target_bytes = self.context.batch_rows, self.context.batch_bytes
        size = batch.nbytes
        if batch.num_rows <= LARGEST_OVER_TARGET * target_rows and size <= LARGEST_OVER_TARGET * target_bytes:
            yield batch
            return
        rows = max(1, min(target_rows, batch.num_rows * target_bytes // max(size, 1)))
        yield from slices(batch, rows)

    def close(self) -> None:
        first: Exception | None = None
        for functions in self._functions:
            try:
                functions.close()
            except Exception as error:
                first = first or error
        if first is not None:
            raise first


class _FusedLoop:
    """Stages that run as one generated loop."""

    def __init__(self, stages: Sequence[RowStage], context: OperatorContext) -> None:
        self._stages = stages
        self._context = context
        self._flush_policy = FlushPolicy(context)
        self._only_filters = all(stage.kind == "filter" for stage in stages)
        self._keeps_rows = all(stage.kind == "map" for stage in stages)
        self._only_splits = [stage.kind for stage in stages] == ["flat_map"] and is_split(stages[0].function)
        changing = [stage for stage in stages if stage.kind != "filter"]
        last = changing[-1] if changing else stages[-1]
        self._encoder = RowEncoder(last.name, context.subtask, last.output_type)
        self._source = _LoopSource(stages)
        self._namespace = self._source.namespace(context)

    def run(self, batch: Batch) -> Iterator[Batch]:
        """The results, a batch at a time, each at most about the target size where a flat_map makes more of it."""
        if self._only_filters:
            yield from self._filter(batch)
            return
        if self._only_splits and (words := self._split(batch)) is not None:
            yield from slices(words, self._context.batch_rows)
            return
        needs_rows = (batch.timestamps is not None or batch.kinds is not None) and not self._keeps_rows
        outputs: list[Any] = []
        rows: list[int] = []
        flush_policy = self._flush_policy
        flush_policy.begin()
        loop = self._source.start(
            self._namespace,
            decode(batch),
            None if self._encoder.keeps_values else self._encoder.appender(outputs),
            outputs,
            rows if needs_rows else None,
            lambda: flush_policy.check_at,
        )
        while self._advance(loop):
            if flush_policy.is_due(len(outputs)):
                yield self._encode(batch, outputs, rows)
        if outputs:
            yield self._encode(batch, outputs, rows)

    def _advance(self, loop: Iterator[None]) -> bool:
        """Runs the loop until its outputs are to be looked at; False when it has seen all rows."""
        try:
            next(loop)
        except StopIteration:
            return False
        except BaseException as error:
            stage, value = self._source.culprit(error)
            if isinstance(error.__cause__, StopIteration):
                error = error.__cause__  # the generator made a RuntimeError of it
            raise_attributed(stage.name, self._context.subtask, value, error)
        return True

    def _encode(self, batch: Batch, outputs: list[Any], rows: list[int]) -> Batch:
        timestamps, kinds = batch.timestamps, batch.kinds
        if (timestamps is not None or kinds is not None) and not self._keeps_rows:
            from_rows = from_numpy(np.array(rows, np.int64))
            timestamps = None if timestamps is None else timestamps.take(from_rows)
            kinds = None if kinds is None else kinds.take(from_rows)
        result = self._encoder.encode(outputs, timestamps, kinds)
        outputs.clear()
        rows.clear()
        self._flush_policy.passed(result.num_rows, result.nbytes)
        return result

    def _split(self, batch: Batch) -> Batch | None:
        """The words of a batch of bare texts, split as whole columns; None: the function itself has to be called."""
        if batch.kind is not Kind.SCALAR or batch.data.column(0).type != pa.string():
            return None
        if self._encoder.record_type != _TEXTS:
            return None  # another type is declared, or the type is not known before the first word
        split = split_texts(batch.data.column(0))
        if split is None:
            return None
        words, counts = split
        timestamps = batch.timestamps
        if timestamps is not None:
            timestamps = from_numpy(np.repeat(fixed_width(timestamps, INT64), counts))
        kinds = None if batch.kinds is None else from_numpy(np.repeat(as_numpy(batch.kinds), counts))
        return Batch(pa.RecordBatch.from_arrays([words], schema=_TEXTS.schema), Kind.SCALAR, timestamps, None, kinds)

    def _filter(self, batch: Batch) -> Iterator[Batch]:
        """Runs a loop of filters only: takes the rows that stay from the columns as they came."""
        rows: list[int] = []
        outputs: list[Any] = []
        policy = self._flush_policy
        loop = self._source.start(self._namespace, decode(batch), None, outputs, rows, lambda: policy.check_at)
        self._advance(loop)
        if len(rows) == batch.num_rows:
            yield batch
        elif rows:
            yield batch.take(from_numpy(np.array(rows, np.int64)))


# -- the generated loop ------------------------------------------------------------------------------------------


class _LoopSource:
    """The source of a loop, and which line belongs to which stage."""

    def __init__(self, stages: Sequence[RowStage]) -> None:
        self._stages = stages
        self._lines: list[tuple[str, int | None]] = []
        """Each line, with the index of the stage whose function it calls; None: it calls none."""
        self._inputs: list[str] = []
        """For each stage, the variable that holds the value with which its function is called."""
        self._helpers: dict[str, Any] = {
            "PLAIN": PLAIN_TYPES,
            "as_row": as_row,
            "repeat": repeat,
            "Row": Row,
        }
        self._build()
        self._code: CodeType = compile("\n".join(text for text, _ in self._lines), FUSED_FILENAME, "exec")

    def namespace(self, context: OperatorContext) -> dict[str, Any]:
        """The globals of the loop: the functions, and what brings their results into form."""
        namespace = {**self._helpers, "canceled": context.cancellation}
        for index, stage in enumerate(self._stages):
            namespace[f"f{index}"] = as_callable(stage.function, stage.kind)
            if stage.output_type is not None:
                namespace[f"coerce{index}"] = _Coercion(stage, context)
                namespace[f"Row{index}"] = row_class(tuple(stage.output_type.schema.names))
            elif stage.kind != "filter":
                namespace[f"rows{index}"] = _RowsOnly(stage, context)
        exec(self._code, namespace)
        return namespace

    def start(
        self,
        namespace: dict[str, Any],
        values: list[Any],
        append: Callable[[Any], None] | None,
        outputs: list[Any],
        rows: list[int] | None,
        limit: Callable[[], int],
    ) -> Iterator[None]:
        """A generator that appends to `outputs` (and to `rows` the position of the row that each comes from).

        It yields whenever there are limit() outputs or more, of one flat_map's list at most as many more; the caller
        empties the lists, or has a higher limit from then on.

        Args:
            append: how an output gets into `outputs`; None: as it is, so that a whole list may be appended at once.
        """
        loop: Iterator[None] = namespace[_loop_name(append is not None, rows is not None)](
            values, append, rows, outputs, limit
        )
        return loop

    def culprit(self, error: BaseException) -> tuple[RowStage, Any]:
        """The stage whose function raised, and the value that it was called with."""
        found = _loop_frame(error.__traceback__)
        cause = error.__cause__
        if found is None and cause is not None:
            found = _loop_frame(cause.__traceback__)
        if found is None:
            return self._stages[0], NO_VALUE
        line, values = found
        index = self._lines[line - 1][1]
        return (self._stages[0], NO_VALUE) if index is None else (self._stages[index], values.get(self._inputs[index]))

    def _build(self) -> None:
        # The loop calls its own variables, which are quicker to read than globals.
        own = [f"f{index}" for index in range(len(self._stages))] + [
            "type",
            "int",
            "float",
            "str",
            "tuple",
            "len",
            "PLAIN",
            "canceled",
        ]
        defaults = ", ".join(f"{name}={name}" for name in own)
        for calls_append, has_rows in product((False, True), repeat=2):
            name = _loop_name(calls_append, has_rows)
            self._write_loop(f"def {name}(values, append, rows, outputs, limit, {defaults}):", calls_append, has_rows)

    def _write_loop(self, head: str, calls_append: bool, has_rows: bool) -> None:
        self._inputs = []
        self._line(0, head)
        self._line(1, "target = limit()")
        self._line(1, "for row, v0 in enumerate(values):" if has_rows else "for v0 in values:")
        depth, value, last = 2, "v0", len(self._stages) - 1
        for index, stage in enumerate(self._stages):
            self._inputs.append(value)
            if stage.kind == "filter":
                self._line(depth, f"if not f{index}({value}):", index)
                self._write_cancellation_check(depth + 1, index)
                self._line(depth + 1, "continue")
                continue
            result = f"v{index + 1}"
            if stage.kind == "map":
                self._line(depth, f"{result} = f{index}({value})", index)
            else:
                self._write_cancellation_check(depth, index)
                self._line(depth, f"results{index} = f{index}({value})", index)
                branch = "if"
                if index == last and not calls_append:
                    branch = "elif"
                    self._write_extension(depth, index, has_rows)
                self._line(depth, f"{branch} results{index} is not None:")
                self._line(depth + 1, f"for {result} in results{index}:", index)
                depth += 2
            value = result
            if index < last:
                self._write_form(depth, index, value)
        if any(stage.kind != "filter" for stage in self._stages):
            self._line(depth, f"append({value})" if calls_append else f"outputs.append({value})")
        if has_rows:
            self._line(depth, "rows.append(row)")
        self._write_cut(depth)
        self._line(1, "return")
        self._line(1, "yield")

    def _write_extension(self, depth: int, index: int, has_rows: bool) -> None:
        """Appends a list of the last function's results at once; other iterables may run the user's code and go one by
        one."""
        self._line(depth, f"if type(results{index}) is list and len(results{index}) <= target:")
        self._line(depth + 1, f"outputs += results{index}")
        if has_rows:
            self._line(depth + 1, f"rows += repeat(row, len(results{index}))")
        self._write_cut(depth + 1)

    def _write_cancellation_check(self, depth: int, index: int) -> None:
        """Checks for cancellation where a row of an earlier flat_map may be dropped, since a flat_map may have no
        end."""
        if any(stage.kind == "flat_map" for stage in self._stages[:index]):
            self._line(depth, "if canceled:")
            self._line(depth + 1, "canceled.check()")

    def _write_cut(self, depth: int) -> None:
        if any(stage.kind == "flat_map" for stage in self._stages):
            self._line(depth, "if len(outputs) >= target:")
            self._line(depth + 1, "yield")
            self._line(depth + 1, "target = limit()")

    def _write_form(self, depth: int, index: int, value: str) -> None:
        """Brings a result into the form in which the next function would get it from a batch."""
        declared = self._stages[index].output_type
        if declared is not None:
            if declared.kind is Kind.OBJECT:
                return  # any object is seen as it is
            condition = _mismatch_test(value, declared, f"Row{index}")
            self._line(depth, f"if {condition}:")
            self._line(depth + 1, f"{value} = coerce{index}({value})")
            return
        self._line(depth, f"if type({value}) is not int and type({value}) is not str and type({value}) is not float:")
        self._line(depth + 1, f"if type({value}) is tuple:")
        self._line(depth + 2, f"if rows{index}.seen is None:")
        self._line(depth + 3, f"rows{index}.see({value})")
        self._line(depth + 2, f"for item in {value}:")
        self._line(depth + 3, "if type(item) not in PLAIN:")
        self._line(depth + 4, f"{value} = as_row({value})")
        self._line(depth + 4, "break")
        self._line(depth + 1, f"elif {value} is None:")
        self._line(depth + 2, f"rows{index}.see_none()")
        self._line(depth + 1, f"elif type({value}) not in PLAIN:")
        self._line(depth + 2, f"{value} = as_row({value})")
        self._line(depth + 2, f"if rows{index}.seen is None and isinstance({value}, Row):")
        self._line(depth + 3, f"rows{index}.see({value})")

    def _line(self, depth: int, text: str, stage: int | None = None) -> None:
        self._lines.append(("    " * depth + text, stage))


def _loop_name(calls_append: bool, has_rows: bool) -> str:
    return f"loop{'_that_appends' if calls_append else ''}{'_with_rows' if has_rows else ''}"


_SIMPLE_TESTS: dict[pa.DataType, str] = {
    pa.int8(): "type({0}) is int and -128 <= {0} <= 127",
    pa.int16(): "type({0}) is int and -32768 <= {0} <= 32767",
    pa.int32(): "type({0}) is int and -2147483648 <= {0} <= 2147483647",
    pa.int64(): "type({0}) is int and -9223372036854775808 <= {0} <= 9223372036854775807",
    pa.float64(): "type({0}) is float",
    pa.string(): "type({0}) is str",
    pa.bool_(): "type({0}) is bool",
    pa.binary(): "type({0}) is bytes",
}


def _mismatch_test(value: str, declared: RecordType, row_class_name: str) -> str:
    """Python source that is true where the value would not come out of a batch of that type as it is."""
    tests = [_SIMPLE_TESTS[field.type] for field in declared.schema]
    if declared.kind is Kind.SCALAR:
        return f"not ({tests[0].format(value)} or {value} is None)"
    fields = [f"({test.format(f'{value}[{index}]')} or {value}[{index}] is None)" for index, test in enumerate(tests)]
    row_type = f"type({value}) is tuple and len({value}) == {len(tests)}"
    if declared.kind is Kind.ROW:
        # Row classes are cached by their names, so the class says that the columns are the declared ones.
        row_type = f"type({value}) is {row_class_name}"
    return f"not ({' and '.join([row_type, *fields])})"


def _cut(stages: Sequence[RowStage]) -> list[list[RowStage]]:
    """Groups of neighbouring stages that share a loop: cut behind a function whose declared type needs Arrow."""
    cuts = [
        index + 1
        for index, stage in enumerate(stages[:-1])
        if stage.output_type is not None and not _is_simple(stage.output_type)
    ]
    return [list(stages[start:stop]) for start, stop in pairwise([0, *cuts, len(stages)])]


def _is_simple(declared: RecordType) -> bool:
    return declared.kind is Kind.OBJECT or all(field.type in _SIMPLE_TESTS for field in declared.schema)


class _Coercion:
    """Brings a value into its declared type, exactly as a batch would; slow, for the rare value that needs it."""

    def __init__(self, stage: RowStage, context: OperatorContext) -> None:
        self._encoder = RowEncoder(stage.name, context.subtask, stage.output_type)

    def __call__(self, value: Any) -> Any:
        return decode(self._encoder.encode([value], None))[0]


class _RowsOnly:
    """Refuses None among the rows of a stage within a loop, as a batch does, which has no row for it."""

    def __init__(self, stage: RowStage, context: OperatorContext) -> None:
        self._stage = stage
        self._context = context
        self.seen: Any = None
        """The first row."""
        self._has_none = False

    def see(self, row: Any) -> None:
        self.seen = row
        self._check()

    def see_none(self) -> None:
        self._has_none = True
        self._check()

    def _check(self) -> None:
        if self._has_none and self.seen is not None:
            RowEncoder(self._stage.name, self._context.subtask, None).encode([self.seen, None], None)


def _loop_frame(trace: TracebackType | None) -> tuple[int, dict[str, Any]] | None:
    """Line and variables of the generated loop in a traceback."""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FUSED_FILENAME:
            return trace.tb_lineno, dict(trace.tb_frame.f_locals)
        trace = trace.tb_next
    return None
