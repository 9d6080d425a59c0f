"""Errors of the user's code: named with operator, subtask and value, and with the user's own lines of the traceback."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any, NoReturn

from msgspec import Struct

import actors
import flinkray
import graphs
from actors.operators.contract.cancellation import TaskCanceled
from actors.operators.contract.operator import OperatorContext
from flinkray.batches.row_codec import short_repr
from flinkray.errors import FlinkrayError, UserFunctionError, cut, make_printable, message_of, name_operator

_FRAMEWORK_DIRECTORIES = tuple(
    os.path.dirname(os.path.abspath(package.__file__)) + os.sep
    for package in (actors, flinkray, graphs)
    if package.__file__
)


FUSED_FILENAME = "<flinkray fused row functions>"
"""The file name of generated code, whose frames are the framework's and not the user's."""


def user_function_error(operator: str, subtask: str, value: Any, error: BaseException) -> UserFunctionError:
    """The error to raise where the user's code raised `error` for `value`; it shows the user's frames only."""
    return UserFunctionError(
        operator,
        subtask,
        "" if value is NO_VALUE else short_repr(value),
        cut(f"{type(error).__name__}: {message_of(error)}"),
        cut(user_traceback(error)),
    )


class _NoValue:
    def __repr__(self) -> str:
        return "(no value)"


NO_VALUE = _NoValue()
"""Stands for the value in errors of calls that have none, such as `open` and `close`."""


def user_traceback(error: BaseException) -> str:
    """The traceback without the frames of flinkray itself; the whole one where it has no others."""
    make_printable(error)
    report = traceback.TracebackException.from_exception(error, capture_locals=False)
    part: traceback.TracebackException | None = report
    while part is not None:
        own_frames = [frame for frame in part.stack if not _is_framework(frame.filename)]
        if own_frames:
            part.stack = traceback.StackSummary.from_list(own_frames)
        part = part.__cause__ or (None if part.__suppress_context__ else part.__context__)
    return "".join(report.format()).rstrip()


def _is_framework(filename: str) -> bool:
    return filename == FUSED_FILENAME or os.path.abspath(filename).startswith(_FRAMEWORK_DIRECTORIES)


class OfKey(Struct, frozen=True):
    """Stands for the value in errors of calls that are made for a key and not for a row."""

    key: Any
    what: str
    """What was called for the key, for example "timer 1000"."""

    def __repr__(self) -> str:
        return f"{self.what} of key {short_repr(self.key)}"


@contextlib.contextmanager
def attributed(context: OperatorContext, value: Any) -> Iterator[None]:
    """Runs the user's code inside it: what that raises becomes a UserFunctionError of that operator."""
    try:
        yield
    except BaseException as error:
        raise_attributed(context.operator_name, context.subtask, value, error)


def raise_attributed(operator: str, subtask: str, value: Any, error: BaseException) -> NoReturn:
    """Raises the error of a user function as UserFunctionError.

    Errors of flinkray itself are raised as they are, but that they name the operator, and so is what came from
    elsewhere while the function ran: that its task is cancelled, or Ctrl-C.
    """
    name_operator(error, operator, subtask)
    if isinstance(error, FlinkrayError) or not is_of_user(error):
        raise error
    raise user_function_error(operator, subtask, value, error) from error


def is_of_user(error: BaseException) -> bool:
    """Whether it is the user's own code that raised it, and not what ends that code from outside."""
    if isinstance(error, Exception | SystemExit):
        return True
    if isinstance(error, TaskCanceled):
        return False
    if isinstance(error, GeneratorExit):
        innermost = list(traceback.walk_tb(error.__traceback__))[-1:]  # that of a generator of ours if it is closed
        return any(not _is_framework(frame.f_code.co_filename) for frame, _ in innermost)
    asyncio = sys.modules.get("asyncio")  # importing it takes time, and code that raises its errors has done so
    if asyncio is not None and isinstance(error, asyncio.CancelledError):
        return True
    # Ctrl-C comes in the main thread, and what ends a test there; of a library (Rust's PanicException) it is elsewhere.
    return threading.current_thread() is not threading.main_thread()
