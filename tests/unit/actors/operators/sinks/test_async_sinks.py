"""Sinks that send requests, stepped with a virtual clock: what is sent, when, and what happens where it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from actors.operators.sinks.operator import SinkOperator
from flinkray import AsyncSinkWriter, RequestLimits, SendAgain, Sink, SinkWriter, SinkWriterContext
from flinkray.errors import FlinkrayError, UserFunctionError
from flinkray.transformations.operator_factories import SinkFactory
from tests.support.operators import OperatorHarness, code
from tests.support.tasks import numbers

Answer = Callable[[list[int]], Any]


class Service:
    """Gets requests, and answers each after 10 ms as the test says."""

    def __init__(self) -> None:
        self.requests: list[list[int]] = []
        self.under_way = 0
        self.most_under_way = 0
        self.answer: Answer = lambda _: None
        self.is_closed = False


class Writer(AsyncSinkWriter):
    def __init__(self, context: SinkWriterContext, limits: RequestLimits, service: Service) -> None:
        super().__init__(context, limits)
        self.service = service

    async def send(self, rows: pa.RecordBatch) -> Sequence[int] | None:
        service, values = self.service, rows.column(0).to_pylist()
        service.requests.append(values)
        service.under_way += 1
        service.most_under_way = max(service.most_under_way, service.under_way)
        try:
            await asyncio.sleep(0.01)
            answer: Sequence[int] | None = service.answer(values)
            return answer
        finally:
            service.under_way -= 1

    async def close_client(self) -> None:
        self.service.is_closed = True


class Requests(Sink):
    def __init__(self, service: Service, limits: RequestLimits) -> None:
        self.service = service
        self.limits = limits

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        return Writer(context, self.limits, self.service)


@pytest.fixture
def service() -> Service:
    return Service()


def opened(service: Service, **limits: int) -> OperatorHarness:
    sink = Requests(service, RequestLimits(**limits))
    return OperatorHarness(SinkOperator(code(SinkFactory(sink))), has_checkpoints=True)


def test_full_requests_are_sent_at_once_and_the_rest_after_a_while(service: Service) -> None:
    with opened(service, max_rows=2, max_time_in_buffer_ms=50) as sink:
        sink.push(numbers(1, 2, 3))
        sink.advance(49)
        assert service.requests == [[1, 2]]
        sink.advance(1)
        assert service.requests == [[1, 2], [3]]
    assert service.is_closed


def test_a_barrier_waits_until_everything_before_it_was_sent(service: Service) -> None:
    with opened(service, max_rows=2) as sink:
        sink.push(numbers(1, 2, 3))
        stepped = sink.context.yield_to_mailbox

        def step() -> None:
            sink.advance(10)
            if sink.context.mails:
                stepped()

        sink.context.yield_to_mailbox = step  # type: ignore[method-assign]
        sink.snapshot(1)
        assert service.requests == [[1, 2], [3]]
        assert service.under_way == 0


def test_so_many_requests_are_under_way_and_so_many_rows_wait(service: Service) -> None:
    with opened(service, max_rows=1, max_in_flight=2, max_buffered_rows=4) as sink:
        sink.push(numbers(1, 2, 3))
        assert sink.operator.is_available
        sink.push(numbers(4))
        assert not sink.operator.is_available
        sink.advance(5)
        assert service.requests == [[1], [2]]
        sink.advance(10)
        assert sink.operator.is_available
        sink.advance(100)
        assert service.most_under_way == 2
        assert service.requests == [[1], [2], [3], [4]]


def test_rows_that_were_refused_are_sent_again_before_others_after_a_pause(service: Service) -> None:
    service.answer = lambda values: [1] if values == [1, 2] else None
    with opened(service, max_rows=2, max_in_flight=1) as sink:
        sink.push(numbers(1, 2, 3, 4))
        sink.advance(10)
        assert service.requests == [[1, 2]]
        sink.advance(99)
        assert service.requests == [[1, 2]]
        sink.advance(50)
        assert service.requests == [[1, 2], [2], [3, 4]]
        assert sink.context.metrics.counters["rows_sent_again"] == 1


def test_fewer_requests_are_made_while_they_fail(service: Service) -> None:
    def refuse(_values: list[int]) -> None:
        raise ConnectionResetError

    service.answer = refuse
    with opened(service, max_rows=1, max_in_flight=8) as sink:
        sink.push(numbers(*range(8)))
        sink.advance(10)
        assert service.most_under_way == 8
        service.most_under_way = 0
        sink.advance(100)
        assert service.most_under_way == 1


def test_rows_that_fail_too_often_fail_the_job_and_say_why(service: Service) -> None:
    def refuse(_values: list[int]) -> None:
        raise ConnectionRefusedError("nobody there")

    service.answer = refuse
    with opened(service, max_rows=1, max_attempts=3) as sink:
        sink.push(numbers(1))
        with pytest.raises(FlinkrayError, match=r"operator 'op'.*1 rows could not be sent in 3 attempts.*nobody there"):
            sink.advance(60_000)
        assert len(service.requests) == 3


def test_a_service_says_which_rows_go_again_and_when_and_why(service: Service) -> None:
    def refuse(values: list[int]) -> None:
        raise SendAgain("it is busy", [1] if len(values) == 2 else None, 5_000)

    service.answer = refuse
    with opened(service, max_rows=2, max_attempts=2) as sink:
        sink.push(numbers(1, 2))
        sink.advance(10)
        sink.advance(4_999)
        assert service.requests == [[1, 2]]
        with pytest.raises(FlinkrayError, match=r"1 rows could not be sent in 2 attempts, .* because it is busy; "):
            sink.advance(100)
        assert service.requests == [[1, 2], [2]]


def test_an_error_that_will_not_go_away_fails_the_job_at_once(service: Service) -> None:
    def refuse(_values: list[int]) -> None:
        raise ValueError("no such table")

    service.answer = refuse
    with opened(service, max_rows=1) as sink:
        sink.push(numbers(1))
        with pytest.raises(UserFunctionError, match="no such table"):
            sink.advance(100)


@pytest.mark.parametrize("kind", [asyncio.CancelledError, GeneratorExit, SystemExit])
def test_what_ends_a_request_from_inside_fails_the_job_and_is_not_waited_for(
    service: Service, kind: type[BaseException]
) -> None:
    """Clients raise it as well, such as one whose connection another coroutine has given up."""

    def give_up(_values: list[int]) -> None:
        raise kind("given up")

    service.answer = give_up
    with opened(service, max_rows=1) as sink:
        sink.push(numbers(1))
        with pytest.raises(UserFunctionError, match=f"{kind.__name__}: given up"):
            sink.advance(100)


def test_at_the_end_of_input_everything_is_sent_also_what_fails_at_first(service: Service) -> None:
    failures = [TimeoutError(), ConnectionError()]

    def answer(_values: list[int]) -> None:
        if failures:
            raise failures.pop()

    service.answer = answer
    with opened(service) as sink:
        sink.push(numbers(1, 2))
        stepped = sink.context.yield_to_mailbox

        def step() -> None:
            sink.advance(10)
            if sink.context.mails:
                stepped()

        sink.context.yield_to_mailbox = step  # type: ignore[method-assign]
        sink.end()
        assert service.requests == [[1, 2]] * 3
