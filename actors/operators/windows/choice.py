"""Which operator runs a window: in columns for the built-in aggregates, by rows or folds for the user's functions."""

from __future__ import annotations

from collections.abc import Callable

from actors.operators.contract.operator import Operator
from actors.operators.windows.aligned.aggregate_operator import ColumnarWindowOperator
from actors.operators.windows.aligned.function_operator import RowWindowOperator
from actors.operators.windows.aligned.process_operator import ProcessWindowOperator
from actors.operators.windows.counts.arithmetic import count_windows_of
from actors.operators.windows.counts.operator import ColumnarCountOperator
from actors.operators.windows.general.merging import check_merging
from actors.operators.windows.general.operator import GeneralWindowOperator
from actors.operators.windows.sessions.aggregate_operator import ColumnarSessionOperator
from actors.operators.windows.sessions.function_operator import RowSessionOperator
from flinkray.errors import InvalidProgramError
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.windows.assigners import (
    CumulativeEventTimeWindows,
    CumulativeProcessingTimeWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    is_of_users,
)
from graphs.job_graph import OperatorCode

_ALIGNED = (
    TumblingEventTimeWindows,
    SlidingEventTimeWindows,
    TumblingProcessingTimeWindows,
    SlidingProcessingTimeWindows,
)
_CUMULATIVE = (CumulativeEventTimeWindows, CumulativeProcessingTimeWindows)
_SESSIONS = (EventTimeSessionWindows, ProcessingTimeSessionWindows)


def create_window_operator(code: OperatorCode) -> Operator:
    """The operator of a WindowFactory.

    Raises:
        InvalidProgramError: the window says nothing, or two things at once, about what to compute.
    """
    factory = code.factory
    assert isinstance(factory, WindowFactory)
    chosen = [
        name
        for name, value in (
            ("built-in aggregates", factory.aggregates),
            ("reduce", factory.reduce),
            ("aggregate", factory.aggregate),
        )
        if value
    ]
    if len(chosen) > 1:
        raise InvalidProgramError(f"a window computes one thing, not {' and '.join(chosen)}")
    if factory.aggregates and factory.process is not None:
        raise InvalidProgramError(
            "a window function cannot follow built-in aggregates; add map or process after the window, whose rows have "
            "the key, window_start, window_end and the aggregates"
        )
    if not chosen and factory.process is None:
        raise InvalidProgramError("a window needs aggregates, reduce, aggregate or process")
    check_merging(factory)
    make = columnar_operator(factory) or _row_operator(factory) or GeneralWindowOperator
    return make(factory)


def columnar_operator(factory: WindowFactory) -> Callable[[WindowFactory], Operator] | None:
    """The operator that works on whole columns, where there is one: built-in aggregates that fire as the assigner
    says, or by number of rows. An assigner of the user's, also one derived from ours, is only known to work row by
    row."""
    if not factory.aggregates:
        return None
    if count_windows_of(factory) is not None:
        return ColumnarCountOperator
    if not _is_plain(factory):
        return None
    if type(factory.assigner) in (*_ALIGNED, *_CUMULATIVE):
        return ColumnarWindowOperator
    if type(factory.assigner) in _SESSIONS:
        return ColumnarSessionOperator
    return None


def _row_operator(factory: WindowFactory) -> Callable[[WindowFactory], Operator] | None:
    """The operator that calls functions of the user for windows that fire as the assigner says; None: they do not."""
    if factory.aggregates or not _is_plain(factory):
        return None
    if type(factory.assigner) in _ALIGNED:
        has_folded = factory.reduce is not None or factory.aggregate is not None
        return RowWindowOperator if has_folded else ProcessWindowOperator
    return RowSessionOperator if type(factory.assigner) in _SESSIONS else None


def _is_plain(factory: WindowFactory) -> bool:
    """Whether windows fire as their assigner says, with all their rows."""
    assigner, trigger = factory.assigner, factory.trigger
    is_default = trigger is None or (not is_of_users(assigner) and trigger == assigner.get_default_trigger())
    return is_default and factory.evictor is None
