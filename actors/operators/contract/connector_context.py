"""What the readers of sources and the writers of sinks may know of the subtask that they run in."""

from __future__ import annotations

from actors.operators.contract.operator import OperatorContext


class ConnectorContext:
    """What `SourceReaderContext` and `SinkWriterContext` of `flinkray.connectors` have in common."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    @property
    def subtask_index(self) -> int:
        return self._context.subtask_index

    @property
    def parallelism(self) -> int:
        return self._context.parallelism

    @property
    def attempt_number(self) -> int:
        return self._context.attempt_number

    @property
    def operator_name(self) -> str:
        return self._context.operator_name

    @property
    def job_id(self) -> str:
        return self._context.job_id

    def count(self, name: str, increase: float = 1) -> None:
        self._context.metrics.count(name, increase)

    def now_ms(self) -> int:
        return self._context.clock.now_ms()

    def check_cancelled(self) -> None:
        self._context.cancellation.check()
