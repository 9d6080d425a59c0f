"""`pyflink.table.descriptors`."""

from __future__ import annotations

from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = unavailable(
    __name__,
    "Avro BatchTableDescriptor ConnectTableDescriptor ConnectorDescriptor Csv CustomConnectorDescriptor "
    "CustomFormatDescriptor Descriptor Elasticsearch FileSystem FormatDescriptor HBase Json Kafka OldCsv "
    "Rowtime Schema StreamTableDescriptor",
    "tables are declared with CREATE TABLE, or with TableDescriptor.for_connector and Schema of pyflink.table",
)
