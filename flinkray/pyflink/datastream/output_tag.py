"""`pyflink.datastream.output_tag`."""

from __future__ import annotations

from typing import Any

from flinkray.pyflink.imported_names import imported
from flinkray.types import records as types

__all__ = ["OutputTag"]

__getattr__ = imported(__name__)


class OutputTag(types.OutputTag):
    """Names a side output; without a type its values are any Python objects."""

    __slots__ = ()

    def __init__(self, tag_id: str, type_info: Any = None) -> None:
        super().__init__(tag_id, object if type_info is None else type_info)

    @property
    def tag_id(self) -> str:
        return self.name

    @property
    def type_info(self) -> Any:
        return None if self.output_type is object else self.output_type

    def __reduce__(self) -> tuple[Any, ...]:
        return OutputTag, (self.tag_id, self.type_info)
