"""Work that comes back to an endpoint's own thread as a message."""

from __future__ import annotations

from tests.support.main_thread import SteppedContext


def test_what_is_put_into_the_thread_runs_after_this_and_not_within_it() -> None:
    context = SteppedContext()
    done: list[str] = []
    context.main_thread.run(lambda: done.append("put"))
    done.append("this")
    context.advance(0)
    assert done == ["this", "put"]


def test_blocking_work_hands_its_result_or_its_error_back() -> None:
    context = SteppedContext()
    done: list[object] = []
    context.main_thread.run_blocking(lambda: 7, lambda result, error: done.append((result, error)))
    context.main_thread.run_blocking(lambda: 1 // 0, lambda result, error: done.append((result, type(error))))
    assert done == []
    context.advance(0)
    assert done == [(7, None), (None, ZeroDivisionError)]


def test_a_repetition_goes_on_until_it_is_cancelled_also_by_itself() -> None:
    context = SteppedContext()
    times: list[float] = []
    repetition = context.main_thread.run_every(10, lambda: times.append(context.now))
    context.advance(35)
    repetition.cancel()
    context.advance(100)
    assert times == [10, 20, 30]

    def once() -> None:
        times.append(context.now)
        itself.cancel()

    itself = context.main_thread.run_every(5, once)
    context.advance(100)
    assert times == [10, 20, 30, 140]
    assert context.pending == []
