"""Arrow tables as DataFrames of pandas, with their values as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from flinkray.extras import import_package

if TYPE_CHECKING:
    import pandas as pd


def as_frame(table: pa.Table) -> pd.DataFrame:
    """The rows as a DataFrame, in which whole numbers stay whole beside nulls.

    Arrow makes floats of a column of whole numbers that has nulls. Here it has the type that pandas has for these,
    `Int64` and the like, whose nulls are `pd.NA`; lists of such numbers have Python's, and None.
    """
    pandas = import_package("pandas", "to_pandas()")
    nullable = [
        place for place, column in enumerate(table.columns) if column.null_count and pa.types.is_integer(column.type)
    ]
    others = [place for place in range(table.num_columns) if place not in nullable]
    frame: pd.DataFrame = table.select(others).to_pandas(integer_object_nulls=True)
    for place in nullable:
        values = pandas.array([], dtype=_dtype_name(table.field(place).type)).dtype.__from_arrow__(table.column(place))
        frame.insert(place, table.field(place).name, values, allow_duplicates=True)
    return frame


def _dtype_name(kind: pa.DataType) -> str:
    return f"{'Int' if pa.types.is_signed_integer(kind) else 'UInt'}{kind.bit_width}"
