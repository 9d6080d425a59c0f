"""Whose error it is that ends a function, and how much of its text is kept."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator

import pytest

from actors.operators.contract.cancellation import TaskCanceled
from actors.user_code.errors import NO_VALUE, raise_attributed, user_function_error
from flinkray.errors import LONGEST_TEXT, ErrorInfo, UserFunctionError


def raising(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


def outcome(call: Callable[[], object]) -> BaseException | None:
    """What a call raises that is attributed to operator 'a'."""
    try:
        try:
            call()
        except BaseException as error:
            raise_attributed("a", "1 of 1", 7, error)
    except BaseException as error:
        return error
    return None


def on_another_thread(call: Callable[[], BaseException | None]) -> BaseException | None:
    outcomes: list[BaseException | None] = []
    thread = threading.Thread(target=lambda: outcomes.append(call()))
    thread.start()
    thread.join()
    return outcomes[0]


class PanicException(BaseException):
    """As extensions in Rust raise it."""


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, KeyboardInterrupt, PanicException])
def test_whatever_a_function_raises_on_a_tasks_thread_keeps_operator_and_value(kind: type[BaseException]) -> None:
    error = on_another_thread(lambda: outcome(raising(kind("stop"))))
    assert isinstance(error, UserFunctionError)
    assert (error.operator, error.value) == ("a", "7")
    assert str(error).startswith(f"operator 'a' (subtask 1 of 1): {kind.__name__}: stop; the value was 7")


def test_what_ends_a_function_from_outside_is_not_its_error() -> None:
    assert isinstance(outcome(raising(KeyboardInterrupt())), KeyboardInterrupt)
    assert isinstance(outcome(raising(PanicException())), PanicException), "a test ends so on the main thread"
    assert isinstance(on_another_thread(lambda: outcome(raising(TaskCanceled()))), TaskCanceled)


def test_a_generator_of_the_runtime_that_is_closed_is_no_error_of_the_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actors.user_code.errors._is_framework", lambda name: name == __file__)

    def paused() -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            raise_attributed("a", "1 of 1", NO_VALUE, error)

    pausing = paused()
    next(pausing)
    pausing.close()  # raises what is no GeneratorExit


@pytest.mark.parametrize("length", [LONGEST_TEXT + 1, 10 * LONGEST_TEXT])
def test_of_a_long_text_the_beginning_and_the_end_are_kept(length: int) -> None:
    error = ValueError("first" + "x" * length + "last")
    for info in (ErrorInfo.of(error), ErrorInfo.of(user_function_error("a", "1 of 1", NO_VALUE, error))):
        assert len(info.message) <= LONGEST_TEXT >= len(info.traceback_text)
        assert "first" in info.message
        assert "characters are left out" in info.message
        assert "last" in info.message


def test_a_short_text_is_kept_as_it_is() -> None:
    assert ErrorInfo.of(ValueError("x" * 1_000)).message == "x" * 1_000


def test_an_exception_with_much_in_it_travels_as_its_text() -> None:
    info = ErrorInfo.of(ValueError("too much", "x" * (2 << 20)))
    assert info.pickled is None
    assert len(str(info.exception())) < 3 * LONGEST_TEXT


class Forwarding(Exception):
    """Hands names on to what is not there, and so fails otherwise than Python expects where it looks for notes."""

    def __getattr__(self, name: str) -> object:
        return self.__dict__["answer"][name]


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class EndingWhoAsks(Exception):
    def __str__(self) -> str:
        sys.exit(4)


class EndingWhoReads(Exception):
    def __reduce__(self) -> tuple[object, ...]:
        return sys.exit, (4,)


@pytest.mark.parametrize("kind", [Forwarding, Mute, EndingWhoAsks, EndingWhoReads])
def test_an_exception_that_does_not_let_itself_be_looked_at_is_told_all_the_same(kind: type[Exception]) -> None:
    error = outcome(raising(kind("bad row")))
    assert isinstance(error, UserFunctionError)
    assert f"operator 'a' (subtask 1 of 1): {kind.__name__}: " in str(error)
    group = ExceptionGroup("several", [kind("bad row")])
    for info in (ErrorInfo.of(kind("bad row")), ErrorInfo.of(error), ErrorInfo.of(group)):
        assert isinstance(info.exception(), Exception)
        assert kind.__name__ in str(info)
    assert kind.__name__ in "".join(traceback.format_exception(error)), "loggers print what it was raised from"
