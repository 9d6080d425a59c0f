"""Which operator runs a window: columns for the built-in aggregates, rows for the user's own functions."""

from __future__ import annotations

from actors.operators.base import Operator
from actors.operators.window_columnar import ColumnarWindowOperator
from actors.operators.window_rows import RowWindowOperator
from flinkray.errors import InvalidProgramError
from flinkray.operator_factories import WindowFactory
from graphs.job_graph import OperatorCode


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
    if factory.aggregates:
        return ColumnarWindowOperator(factory)
    if not chosen and factory.process is None:
        raise InvalidProgramError("a window needs aggregates, reduce, aggregate or process")
    return RowWindowOperator(factory)
