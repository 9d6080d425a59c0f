"""Program -> StreamGraph: every transformation that leads to a registered one becomes a node, or part of an edge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flinkray.config.options import BUFFER_TIMEOUT, MAX_PARALLELISM, OPERATOR_CHAINING, PARALLELISM
from flinkray.errors import InvalidProgramError
from flinkray.execution import Pipeline
from flinkray.transformations.operator_factories import MultipleInputFactory, OperatorFactory, input_count
from flinkray.transformations.transformation import (
    DEFAULT_SLOT_SHARING_GROUP,
    PartitionTransformation,
    PhysicalTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)
from graphs.job_graph import TaskKind
from graphs.key_groups import HIGHEST_MAX_PARALLELISM, default_max_parallelism
from graphs.runtime_mode import (
    batch_chaining,
    batch_configuration,
    batch_exchange_mode,
    batch_factory,
    is_batch,
    streaming_configuration,
)
from graphs.stream_graph import ExchangeMode, GlobalExchangeMode, StreamGraph, StreamNode


def generate_stream_graph(pipeline: Pipeline, *, global_exchange_mode: GlobalExchangeMode | None = None) -> StreamGraph:
    """The StreamGraph of a program.

    Args:
        global_exchange_mode: what becomes of exchanges of which the program does not say; None: its runtime mode does.

    Raises:
        InvalidProgramError: nothing to execute, a cycle, or a setting that cannot be (the message names the operator).
    """
    if not pipeline.transformations:
        raise InvalidProgramError(
            f"nothing to execute: the program {pipeline.name!r} is empty; add a source, and a sink such as print()"
        )
    transformations = list(_inputs_first(pipeline.transformations))
    generator = _Generator(pipeline, is_batch(pipeline.configuration, transformations), global_exchange_mode)
    for transformation in transformations:
        generator.translate(transformation)
    if not generator.graph.sink_ids:
        raise InvalidProgramError(
            f"nothing to execute: no stream of the program {pipeline.name!r} ends in a sink; "
            f"end one with sink_to(...) or print()"
        )
    return generator.graph


def _inputs_first(registered: Sequence[Transformation]) -> Iterator[Transformation]:
    """Every transformation that the registered ones reach, once, after its inputs.

    A stack instead of recursion: a long program must not meet Python's recursion limit.
    """
    done: set[int] = set()
    for root in registered:
        path: list[tuple[Transformation, Iterator[Transformation]]] = [(root, iter(root.inputs))]
        on_path = {id(root)}
        while path:
            transformation, inputs = path[-1]
            unseen = next((each for each in inputs if id(each) not in done), None)
            if id(transformation) in done or unseen is None:
                path.pop()
                on_path.discard(id(transformation))
                if id(transformation) not in done:
                    done.add(id(transformation))
                    yield transformation
            elif id(unseen) in on_path:
                raise _cycle_error([each for each, _ in path], unseen)
            else:
                path.append((unseen, iter(unseen.inputs)))
                on_path.add(id(unseen))


def _cycle_error(path: list[Transformation], repeated: Transformation) -> InvalidProgramError:
    start = next(index for index, each in enumerate(path) if each is repeated)
    # The path leads from consumers to their inputs; users read a program the other way, and know it by its operators.
    loop = list(reversed(path[start:]))
    operators = [each for each in loop if isinstance(each, PhysicalTransformation)] or loop
    names = [repr(each.name) for each in operators]
    return InvalidProgramError(f"the program has a cycle: {' -> '.join([*names, names[0]])}; streams must not loop")


class _Generator:
    """Translates transformations, each after its inputs, and remembers the node ids that stand for each."""

    def __init__(self, pipeline: Pipeline, is_batch: bool, exchange_mode: GlobalExchangeMode | None) -> None:
        given = pipeline.configuration
        self._is_batch = is_batch
        self._configuration = batch_configuration(given) if is_batch else streaming_configuration(given)
        if exchange_mode is None:
            exchange_mode = batch_exchange_mode(given) if is_batch else GlobalExchangeMode.ALL_EDGES_PIPELINED
        self.graph = StreamGraph(
            pipeline.name,
            self._configuration,
            chaining_enabled=given.get(OPERATOR_CHAINING),
            is_batch=is_batch,
            global_exchange_mode=exchange_mode,
            cached_files=pipeline.cached_files,
        )
        self._ids: dict[int, tuple[int, ...]] = {}

    def translate(self, transformation: Transformation) -> None:
        if isinstance(transformation, PhysicalTransformation):
            ids = self._physical(transformation)
        elif isinstance(transformation, PartitionTransformation):
            ids = self._partition(transformation)
        elif isinstance(transformation, SideOutputTransformation):
            ids = self._side_output(transformation)
        elif isinstance(transformation, UnionTransformation):
            # No node, real or virtual: the consumer gets one edge per united stream.
            ids = tuple(node_id for each in transformation.union_inputs for node_id in self._ids[id(each)])
        else:
            raise InvalidProgramError(f"{transformation.name!r}: no translation for {type(transformation).__name__}")
        self._ids[id(transformation)] = ids

    def _partition(self, transformation: PartitionTransformation) -> tuple[int, ...]:
        try:
            exchange_mode = ExchangeMode[transformation.exchange_mode]
        except KeyError:
            modes = ", ".join(mode.name for mode in ExchangeMode)
            raise InvalidProgramError(
                f"{transformation.name!r}: no exchange mode {transformation.exchange_mode!r}; there are {modes}"
            ) from None
        virtual_ids = []
        for origin in self._ids[id(transformation.input)]:
            virtual_ids.append(self.graph.new_virtual_id())
            self.graph.add_virtual_partition(virtual_ids[-1], origin, transformation.partitioner, exchange_mode)
        return tuple(virtual_ids)

    def _side_output(self, transformation: SideOutputTransformation) -> tuple[int, ...]:
        virtual_ids = []
        for origin in self._ids[id(transformation.input)]:
            virtual_ids.append(self.graph.new_virtual_id())
            self.graph.add_virtual_side_output(virtual_ids[-1], origin, transformation.tag)
        return tuple(virtual_ids)

    def _physical(self, transformation: PhysicalTransformation) -> tuple[int, ...]:
        expected, given = input_count(transformation.factory), len(transformation.inputs)
        if expected != given:
            raise InvalidProgramError(f"{transformation.name!r} takes {expected} inputs, and has {given}")
        input_ids = [self._ids[id(each)] for each in transformation.inputs]
        self.graph.add_node(self._node(transformation, input_ids))
        for input_index, upstream_ids in enumerate(input_ids):
            for upstream in upstream_ids:
                self.graph.add_edge(upstream, transformation.id, input_index)
        return (transformation.id,)

    def _node(self, transformation: PhysicalTransformation, input_ids: list[tuple[int, ...]]) -> StreamNode:
        parallelism = self._parallelism(transformation)
        timeout_ms = transformation.buffer_timeout_ms
        if timeout_ms is not None and timeout_ms < 0:
            raise InvalidProgramError(f"{transformation.name!r}: buffer timeout must be at least 0 ms, is {timeout_ms}")
        keys = transformation.keys or (None,) * len(input_ids)
        if len(keys) != len(input_ids):
            raise InvalidProgramError(f"{transformation.name!r} has {len(input_ids)} inputs and {len(keys)} keys")
        factory, chaining = transformation.factory, transformation.effective_chaining_strategy
        if self._is_batch:
            factory, chaining = batch_factory(factory), batch_chaining(chaining, transformation, self._configuration)
        return StreamNode(
            id=transformation.id,
            name=transformation.name,
            factory=factory,
            kind=_task_kind(transformation.factory),
            parallelism=parallelism,
            has_own_parallelism=transformation.parallelism is not None,
            max_parallelism=self._max_parallelism(transformation, parallelism),
            has_own_max_parallelism=bool(transformation.max_parallelism or self._configuration.get(MAX_PARALLELISM)),
            slot_sharing_group=self._slot_sharing_group(transformation, input_ids),
            co_location_key=transformation.co_location_key,
            chaining_strategy=chaining,
            keys=keys,
            uid=transformation.uid,
            uid_hash=transformation.uid_hash,
            buffer_timeout_ms=self._configuration.get(BUFFER_TIMEOUT) if timeout_ms is None else timeout_ms,
            has_own_buffer_timeout=timeout_ms is not None,
            description=transformation.description or transformation.name,
            min_resources=transformation.min_resources,
            preferred_resources=transformation.preferred_resources,
            managed_memory_weights=dict(transformation.managed_memory_weights),
            managed_memory_slot_use_cases=transformation.managed_memory_slot_use_cases,
            computes=transformation.computes,
        )

    def _parallelism(self, transformation: Transformation) -> int:
        if transformation.parallelism is None:
            return self._configuration.get(PARALLELISM)
        if transformation.parallelism < 1:
            raise InvalidProgramError(
                f"{transformation.name!r}: parallelism must be at least 1, is {transformation.parallelism}"
            )
        return transformation.parallelism

    def _max_parallelism(self, transformation: Transformation, parallelism: int) -> int:
        given = transformation.max_parallelism
        if given is None:
            given = self._configuration.get(MAX_PARALLELISM) or default_max_parallelism(parallelism)
        if not 1 <= given <= HIGHEST_MAX_PARALLELISM:
            raise InvalidProgramError(
                f"{transformation.name!r}: max parallelism must be between 1 and {HIGHEST_MAX_PARALLELISM}, is {given}"
            )
        if parallelism > given:
            raise InvalidProgramError(
                f"{transformation.name!r}: parallelism {parallelism} is above the max parallelism, {given}; "
                f"lower the one or raise the other with set_max_parallelism"
            )
        return given

    def _slot_sharing_group(self, transformation: Transformation, input_ids: list[tuple[int, ...]]) -> str:
        if transformation.slot_sharing_group is not None:
            return transformation.slot_sharing_group
        groups = {self.graph.slot_sharing_group_of(each) for ids in input_ids for each in ids}
        return groups.pop() if len(groups) == 1 else DEFAULT_SLOT_SHARING_GROUP


def _task_kind(factory: OperatorFactory) -> TaskKind:
    if isinstance(factory, MultipleInputFactory):
        return TaskKind.MULTIPLE_INPUT
    return {0: TaskKind.SOURCE, 1: TaskKind.ONE_INPUT, 2: TaskKind.TWO_INPUT}[input_count(factory)]
