"""The columns that `from_data_stream(stream, col("a"), ...)` takes of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from flinkray.errors import InvalidProgramError, did_you_mean
from flinkray.tables.api.expression import Expression, col, function_call
from flinkray.tables.syntax import expressions as syntax

EVENT_TIME = "$rowtime"
"""The column that has the event times of a stream's rows before it gets the name that the program gives it."""

_ATTRIBUTES = ("ROWTIME", "PROCTIME")


class StreamField(Struct, frozen=True):
    """What one expression asks for.

    Args:
        source: the name that `col` has.
        alias: what the column is called instead.
        attribute: "ROWTIME" or "PROCTIME", where it is a time rather than a column of the stream.
    """

    source: str
    alias: str | None = None
    attribute: str | None = None

    @staticmethod
    def of(expression: Expression) -> StreamField:
        """
        Raises:
            InvalidProgramError: it is neither a column nor a time.
        """
        node: syntax.Expression = expression._node
        attribute: str | None = None
        if isinstance(node, syntax.Call) and node.function.texts[-1] in _ATTRIBUTES and len(node.arguments) == 1:
            attribute = node.function.texts[-1]
            (node,) = node.arguments
        if not isinstance(node, syntax.Reference):
            raise InvalidProgramError(
                "from_data_stream takes columns, such as col('a') or col('a').alias('b'), and times, col('t').rowtime "
                f"and col('p').proctime, not {expression}: select(...) computes of the table"
            )
        return StreamField(node.path.texts[-1], next(iter(expression._names), None), attribute)


def columns_of(chosen: Sequence[StreamField], columns: Sequence[str]) -> Iterator[Expression]:
    """The columns of a table for what is asked of a stream with these.

    Raises:
        InvalidProgramError: a column is not there.
    """
    by_name = any(each.attribute is None and (each.alias is not None or each.source in columns) for each in chosen)
    for place, each in enumerate(chosen):
        name = each.alias or each.source
        if each.attribute == "PROCTIME":
            yield function_call("PROCTIME").alias(name)
        elif each.attribute == "ROWTIME":
            yield col(EVENT_TIME).alias(name)
        elif by_name and each.source not in columns:
            hint = did_you_mean(each.source, columns)
            raise InvalidProgramError(
                f"from_data_stream: no column {each.source!r}{hint}; columns: {', '.join(columns)}. Columns are found "
                "by their names because others of the expressions are columns"
            )
        elif not by_name and place >= len(columns):
            raise InvalidProgramError(f"from_data_stream: {name!r} is number {place + 1} of {len(columns)} columns")
        else:
            yield col(each.source if by_name else columns[place]).alias(name)
