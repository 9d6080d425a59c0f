"""`pyflink.datastream.utils`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from flinkray.pyflink.imported_names import imported
from flinkray.pyflink.unavailable import unavailable

__all__ = ["ResultTypeQueryable"]

__getattr__ = imported(
    __name__,
    unavailable(
        __name__,
        "convert_to_python_obj create_hadoop_configuration create_java_properties pickled_bytes_to_python_obj",
        "there are no objects of Java here; results are Python's, and settings are texts",
    ),
)


class ResultTypeQueryable(ABC):
    """Says which type its results have."""

    @abstractmethod
    def get_produced_type(self) -> Any: ...
