"""Asynchronous calls whose outcomes a test decides, and operators that make them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from actors.operators.asynchronous.calls import AsyncCall, AsyncCalls, Deliver
from actors.operators.asynchronous.operator import AsyncWaitOperator
from actors.state.snapshots.snapshot import OperatorSnapshot
from flinkray.functions.asynchronous import NO_RETRY_STRATEGY, AsyncFunction, AsyncRetryStrategy
from flinkray.transformations.operator_factories import AsyncFactory
from flinkray.types.records import Millis
from tests.support.operators import FakeContext, OperatorHarness, RecordedOutput, code
from tests.support.state import restored_from


class HeldCalls(AsyncCalls):
    """Calls nothing: the test says what comes of each call."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self.made: list[AsyncCall] = []
        self.cancelled: list[Any] = []
        self.ended: list[str] = []

    def begin(self, calls: Sequence[AsyncCall]) -> None:
        self.made += calls

    def cancel(self, call: AsyncCall) -> None:
        self.cancelled.append(call.value)

    def settle(self, call: Callable[[], Any]) -> None:
        call()

    def cancel_all(self) -> None:
        self.ended.append("calls")

    def close(self) -> None:
        self.ended.append("all")

    @property
    def values(self) -> list[Any]:
        """The values of all calls so far."""
        return [call.value for call in self.made]

    def give(self, value: Any, *results: Any) -> None:
        """The last call with that value has these results."""
        self._deliver(self._last(value), list(results), None)

    def fail(self, value: Any, error: BaseException) -> None:
        self._deliver(self._last(value), None, error)

    def _last(self, value: Any) -> AsyncCall:
        return next(call for call in reversed(self.made) if call.value == value)


class Lookup(AsyncFunction):
    """Never runs where calls are held; has its own results in place of late ones."""

    async def async_invoke(self, value: Any) -> Any:
        return [value]

    def timeout(self, value: Any) -> Any:
        return [f"late {value}"]


class Strict(AsyncFunction):
    """An AsyncFunction that gives no results in place of late ones."""

    async def async_invoke(self, value: Any) -> Any:
        return [value]


class HeldOperator:
    """An operator with held calls. Use as a context manager."""

    def __init__(
        self,
        function: Any = None,
        *,
        capacity: int = 10,
        timeout_ms: int = 1_000,
        is_ordered: bool = True,
        retry: AsyncRetryStrategy = NO_RETRY_STRATEGY,
        restored: Any = None,
        subtask_index: int = 0,
        parallelism: int = 1,
        output: RecordedOutput | None = None,
    ) -> None:
        factory = AsyncFactory(function or Lookup(), Millis(timeout_ms), capacity, is_ordered, retry)
        operator = AsyncWaitOperator(code(factory), self._create)
        context = FakeContext("lookup", subtask_index=subtask_index, parallelism=parallelism)
        self.calls: HeldCalls
        self.operator = operator
        self.harness = OperatorHarness(operator, restored=restored, context=context, output=output)
        self.context = self.harness.context

    def _create(self, _function: Any, _context: Any, _capacity: int, deliver: Deliver) -> AsyncCalls:
        self.calls = HeldCalls(deliver)
        return self.calls

    def __enter__(self) -> HeldOperator:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.operator.close()

    @property
    def output(self) -> RecordedOutput:
        return self.harness.output

    @property
    def rows(self) -> list[Any]:
        return self.output.rows

    def push(self, *values: Any, times: Sequence[int] | None = None) -> None:
        self.harness.push(list(values), times)

    def give(self, value: Any, *results: Any) -> None:
        """A result comes, and the task gets to it."""
        self.calls.give(value, *(results or (f"r{value}",)))
        self.context.run_mails()

    def fail(self, value: Any, error: BaseException) -> None:
        self.calls.fail(value, error)
        self.context.run_mails()


def restored(snapshots: Sequence[OperatorSnapshot | None], subtask_index: int = 0, parallelism: int = 1) -> Any:
    """What a subtask gets of these."""
    return restored_from(snapshots, range(128), subtask_index, parallelism)
