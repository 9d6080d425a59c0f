"""`pyflink.datastream.formats.orc`."""

from __future__ import annotations

from typing import Any

from flinkray.functions.type_hints import record_type
from flinkray.pyflink.common.serialization import BulkWriterFactory
from flinkray.pyflink.imported_names import imported

__all__ = ["OrcBulkWriters"]

__getattr__ = imported(__name__)


class OrcBulkWriters:
    @staticmethod
    def for_row_type(
        row_type: Any,
        writer_properties: object = None,  # noqa: ARG004
        hadoop_config: object = None,  # noqa: ARG004
    ) -> BulkWriterFactory:
        """ORC files.

        Args:
            row_type: the columns of the files, which rows are brought to, as `output_type=` of an operator.
            writer_properties, hadoop_config: taken for PyFlink's programs; pyarrow writes the files.
        """
        return BulkWriterFactory("orc", record_type(row_type).schema.remove_metadata())
