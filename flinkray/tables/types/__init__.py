"""Flink SQL's logical types: what a column is to a query, nullability and precision included. Open `logical.py` first.

- `logical.py`: the types and how they are written.
- `arrow.py`: the Arrow type that holds a logical type's values, and back.
- `common.py`: the type that several meet in, and the digits of decimals that are computed.
- `number_texts.py`: floats as texts.
- `casts.py`: which casts are allowed, and which happen without being asked for.

Named after Flink's `org.apache.flink.table.types.logical`.
"""
