"""Calls on an event loop and on threads: who runs them, how they are cancelled, and that nothing is left of them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import pytest

import actors
from actors.hosts.runtime import SystemClock
from actors.operators.asynchronous import calls as async_calls
from actors.operators.asynchronous import event_loop as async_event_loop
from actors.operators.asynchronous.calls import MOST_THREADS, AsyncCall, BlockingCalls, CoroutineCalls, create_calls
from actors.operators.asynchronous.operator import AsyncWaitOperator
from actors.operators.asynchronous.queue import InFlight
from actors.protocol.ports import Loop
from flinkray.errors import TypeMismatchError, UserFunctionError
from flinkray.functions.asynchronous import NO_RETRY_STRATEGY, AsyncFunction
from flinkray.transformations.operator_factories import AsyncFactory
from flinkray.types.records import Millis
from tests.support.operators import FakeContext, OperatorHarness, code
from tests.support.waiting import eventually

# Seconds that a test waits for another thread at most.
DEADLINE = 20.0


class ThreadedContext(FakeContext):
    """Gives loops and blocking calls real threads, as a host with threads does."""

    def __init__(self, **settings: Any) -> None:
        super().__init__("calls", **settings)
        self.clock = SystemClock()  # type: ignore[assignment]
        self.threads: list[threading.Thread] = []

    def run_blocking(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self._start("io", lambda: done(work(), None))

    def start_loop(self, name: str, loop: Loop) -> bool:
        def run() -> None:
            while not loop.is_done:
                if not loop.step() and not loop.is_done:
                    loop.wait(200)

        self._start(name, run)
        return True

    def _start(self, name: str, run: Callable[[], None]) -> None:
        self.threads.append(threading.Thread(target=run, name=name, daemon=True))
        self.threads[-1].start()


class Outcomes:
    """Takes what calls deliver."""

    def __init__(self) -> None:
        self.came = threading.Condition()
        self.results: dict[Any, Any] = {}
        self.threads: set[str] = set()

    def __call__(self, call: AsyncCall, results: list[Any] | None, error: BaseException | None) -> None:
        with self.came:
            self.results[call.value] = error if error is not None else results
            self.threads.add(threading.current_thread().name)
            self.came.notify_all()

    def wait_for(self, count: int) -> dict[Any, Any]:
        with self.came:
            assert self.came.wait_for(lambda: len(self.results) >= count, DEADLINE), self.results
            return self.results


@pytest.fixture
def context() -> Iterator[ThreadedContext]:
    context = ThreadedContext()
    yield context
    for thread in context.threads:
        thread.join(DEADLINE)
    assert [thread.name for thread in context.threads if thread.is_alive()] == []


def calls_with(*values: Any) -> list[AsyncCall]:
    return [AsyncCall(InFlight(value, None, 0.0), 1, value) for value in values]


# -- coroutines --------------------------------------------------------------------------------------------------


async def doubled(value: int) -> int:
    await asyncio.sleep(0)
    if value < 0:
        raise ValueError(value)
    return value * 2


def test_coroutines_run_together_on_one_thread_of_their_operator(context: ThreadedContext) -> None:
    outcomes = Outcomes()
    calls = create_calls(doubled, context, 100, outcomes)
    calls.begin(calls_with(*range(50)))
    assert outcomes.wait_for(50) == {value: [value * 2] for value in range(50)}
    assert outcomes.threads == {"calls (1/1) event loop"}
    calls.begin(calls_with(-1))
    assert isinstance(outcomes.wait_for(51)[-1], ValueError)
    calls.cancel_all()
    calls.close()


def test_coroutines_wait_for_each_other_on_the_loop(context: ThreadedContext) -> None:
    outcomes, arrived = Outcomes(), asyncio.Event()

    async def meet(value: str) -> str:
        if value == "last":
            arrived.set()
        await arrived.wait()
        return value

    calls = create_calls(meet, context, 100, outcomes)
    calls.begin(calls_with("a", "b"))
    calls.begin(calls_with("last"))
    assert set(outcomes.wait_for(3)) == {"a", "b", "last"}
    calls.cancel_all()
    calls.close()


def test_a_coroutine_that_is_cancelled_ends_and_delivers_nothing(context: ThreadedContext) -> None:
    outcomes, begun, ended = Outcomes(), threading.Event(), threading.Event()

    async def forever(value: int) -> int:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return value

    calls = create_calls(forever, context, 100, outcomes)
    first, second, third = calls_with(1, 2, 3)
    calls.begin([first])
    assert begun.wait(DEADLINE)
    calls.cancel(first)
    assert ended.wait(DEADLINE)
    calls.begin([second])
    calls.cancel_all()
    calls.begin([third])  # not any more
    calls.close()
    assert outcomes.results == {}


def test_a_coroutine_that_cancels_itself_is_an_error(context: ThreadedContext) -> None:
    outcomes = Outcomes()

    async def give_up(_value: int) -> int:
        raise asyncio.CancelledError

    calls = create_calls(give_up, context, 100, outcomes)
    calls.begin(calls_with(1))
    assert isinstance(outcomes.wait_for(1)[1], asyncio.CancelledError)
    calls.cancel_all()
    calls.close()


def test_the_loop_ends_with_the_threads_that_coroutines_have_asked_it_for(context: ThreadedContext) -> None:
    outcomes, names = Outcomes(), set()

    async def elsewhere(value: int) -> int:
        names.add(await asyncio.to_thread(lambda: threading.current_thread().name))
        return value

    calls = create_calls(elsewhere, context, 100, outcomes)
    calls.begin(calls_with(1, 2))
    outcomes.wait_for(2)
    calls.cancel_all()
    calls.close()
    assert names
    eventually(lambda: names & {thread.name for thread in threading.enumerate()}, lambda left: not left)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (async_calls, async_event_loop):
        monkeypatch.setattr(module, "CLOSE_GRACE_S", 0.05)
        monkeypatch.setattr(module, "CANCEL_GRACE_S", 0.02)


@pytest.mark.usefixtures("impatient")
def test_a_loop_whose_thread_is_blocked_is_left_behind_with_a_warning(
    context: ThreadedContext, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes, begun, release = Outcomes(), threading.Event(), threading.Event()

    async def blocks(value: int) -> int:
        begun.set()
        release.wait(DEADLINE)
        return value

    calls = create_calls(blocks, context, 100, outcomes)
    calls.begin(calls_with(1))
    assert begun.wait(DEADLINE)
    with caplog.at_level(logging.WARNING):
        calls.cancel_all()
        calls.close()
    assert "calls (1/1) event loop does not end: a coroutine blocks its thread" in caplog.text
    release.set()


@pytest.mark.usefixtures("impatient")
def test_a_coroutine_that_does_not_let_itself_be_cancelled_does_not_hold_up_the_end(
    context: ThreadedContext, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes, begun = Outcomes(), threading.Event()

    async def stubborn(value: int) -> int:
        begun.set()
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if value == 2:
                    raise

    calls = create_calls(stubborn, context, 100, outcomes)
    calls.begin(calls_with(1))
    assert begun.wait(DEADLINE)
    with caplog.at_level(logging.WARNING):
        calls.cancel_all()
        calls.close()
        for thread in context.threads:
            thread.join(DEADLINE)
    assert "1 coroutines did not end when they were cancelled" in caplog.text


# -- functions that block ----------------------------------------------------------------------------------------


def test_functions_that_block_run_on_as_many_threads_as_there_may_be(context: ThreadedContext) -> None:
    outcomes, meeting = Outcomes(), threading.Barrier(4)

    def meet(value: int) -> int:
        meeting.wait(DEADLINE)
        return value

    calls = BlockingCalls(meet, lambda result: [result], context, 4, outcomes)
    calls.begin(calls_with(*range(12)))
    assert outcomes.wait_for(12) == {value: [value] for value in range(12)}
    assert len(context.threads) == 4
    calls.cancel_all()


def test_there_are_no_more_threads_than_rows_under_way() -> None:
    context, outcomes = FakeContext("calls"), Outcomes()
    for capacity, threads in ((3, 3), (10_000, MOST_THREADS)):
        calls = create_calls(abs, context, capacity, outcomes)
        calls.begin(calls_with(*range(-100, 0)))
        assert len(context.mails) == threads
        context.mails.clear()


def test_threads_end_when_there_is_nothing_to_call_and_begin_again(context: ThreadedContext) -> None:
    outcomes = Outcomes()
    calls = create_calls(abs, context, 100, outcomes)
    for value in (-1, -2):
        calls.begin(calls_with(value))
        outcomes.wait_for(-value)
        for thread in context.threads:
            thread.join(DEADLINE)
    assert outcomes.results == {-1: [1], -2: [2]}


def test_what_a_function_raises_is_delivered_and_the_thread_goes_on(context: ThreadedContext) -> None:
    outcomes = Outcomes()

    def failing(value: int) -> int:
        raise kinds[value]

    kinds = [SystemExit, GeneratorExit, BaseException, OSError]
    calls = create_calls(failing, context, 1, outcomes)
    calls.begin(calls_with(0, 1, 2, 3))
    assert [type(error) for error in outcomes.wait_for(4).values()] == kinds


def test_a_call_that_is_cancelled_before_it_runs_is_never_made() -> None:
    context, outcomes, called = FakeContext("calls"), Outcomes(), []
    calls = create_calls(called.append, context, 1, outcomes)
    first, second = calls_with(1, 2)
    calls.begin([first, second])
    calls.cancel(first)
    context.run_mails()
    assert called == [2]


@pytest.mark.usefixtures("impatient")
def test_a_call_that_blocks_is_named_when_it_is_too_late_and_does_not_hold_up_the_end(
    context: ThreadedContext, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes, begun, release = Outcomes(), threading.Event(), threading.Event()

    def block(value: int) -> int:
        begun.set()
        release.wait(DEADLINE)
        return value

    calls = create_calls(block, context, 1, outcomes)
    (call,) = calls_with(77)
    calls.begin([call])
    assert begun.wait(DEADLINE)
    with caplog.at_level(logging.WARNING):
        calls.cancel(call)
        calls.cancel_all()
    assert "operator 'calls' (subtask 1 of 1): the call for 77 took too long" in caplog.text
    assert "1 calls do not end" in caplog.text
    release.set()


# -- which function is what --------------------------------------------------------------------------------------


class Callable_:
    async def __call__(self, value: int) -> int:
        return value


def test_a_coroutine_is_known_by_its_declaration() -> None:
    context = FakeContext("calls")
    functions: list[Any] = [doubled, partial(doubled), Callable_(), Sleeping()]
    made = [create_calls(function, context, 1, Outcomes()) for function in functions]
    assert [type(each) for each in made] == [CoroutineCalls] * 4
    for each in made:
        each.close()
    assert type(create_calls(lambda value: value, context, 1, Outcomes())) is BlockingCalls


def test_a_list_is_several_results_and_anything_else_is_one() -> None:
    given: list[Any] = [1, None, [1, 2], [], (1, 2), {"a": 1}]
    assert [async_calls.as_results("op", each) for each in given] == [
        [1],
        [None],
        [1, 2],
        [],
        [(1, 2)],
        [{"a": 1}],
    ]
    with pytest.raises(TypeMismatchError, match="declare it with 'async def'"):
        async_calls.as_results("op", doubled(1))


@pytest.mark.parametrize("wrong", [None, 1, "text", {"a": 1}])
def test_an_async_function_gives_a_list(wrong: Any) -> None:
    assert async_calls.as_result_list("op", iter((1, 2))) == [1, 2]
    fault = "cannot be none" if wrong is None else "should be of list type"
    with pytest.raises(TypeMismatchError, match=f"op: The result of AsyncFunction {fault}: async_invoke and"):
        async_calls.as_result_list("op", wrong)


# -- without threads: a virtual clock ----------------------------------------------------------------------------


class Sleeping(AsyncFunction):
    """Takes as many milliseconds as the value says; its life cycle takes time as well."""

    log: ClassVar[list[str]] = []

    async def open(self, runtime_context: Any) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        self.log.append("opened")

    async def close(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        self.log.append("closed")

    async def async_invoke(self, value: int) -> list[int]:
        try:
            await asyncio.sleep(value / 1000)
        except asyncio.CancelledError:
            self.log.append(f"cancelled {value}")
            raise
        if value == 13:
            raise ValueError(value)
        return [value]

    def timeout(self, value: int) -> list[int]:
        return [-value]


def sleeping(**settings: Any) -> OperatorHarness:
    usual = {"timeout_ms": Millis(100), "capacity": 10, "is_ordered": False, "retry": NO_RETRY_STRATEGY}
    Sleeping.log = []
    return OperatorHarness(AsyncWaitOperator(code(AsyncFactory(Sleeping(), **usual | settings))))


def test_coroutines_sleep_by_the_clock_of_the_test() -> None:
    with sleeping() as harness:
        harness.push([30, 10, 20])
        harness.advance(9)
        assert harness.output.rows == []
        harness.advance(1)
        assert harness.output.rows == [10]
        harness.advance(20)
        assert harness.output.rows == [10, 20, 30]


def test_a_coroutine_that_is_too_late_is_cancelled() -> None:
    with sleeping() as harness:
        harness.push([500, 99])
        harness.advance(100)
        assert harness.output.rows == [99, -500]
        harness.context.run_mails()
        assert Sleeping.log == ["opened", "cancelled 500"]
    assert Sleeping.log == ["opened", "cancelled 500", "closed"]


def test_open_and_close_may_be_coroutines_and_run_around_all_others() -> None:
    with sleeping() as harness:
        harness.push([50])
        harness.advance(1)
    assert Sleeping.log == ["opened", "cancelled 50", "closed"]


def test_an_error_of_a_coroutine_shows_its_own_lines() -> None:
    with sleeping() as harness:
        harness.push([13])
        with pytest.raises(UserFunctionError, match="ValueError: 13; the value was 13") as caught:
            harness.advance(13)
        assert "in async_invoke" in caught.value.cause_traceback
        assert actors.__path__[0] not in caught.value.cause_traceback
