"""Names that a module of PyFlink has because it imports them for its own use. Programs import them from there as well:
`from pyflink.datastream.window import Time`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

_PACKAGE = "flinkray.pyflink."
_FUNCTIONS = (
    "AggregateFunction AllWindowFunction BroadcastProcessFunction CoFlatMapFunction CoMapFunction CoProcessFunction "
    "FilterFunction FlatMapFunction Function KeyedBroadcastProcessFunction KeyedCoProcessFunction MapFunction "
    "NullByteKeySelector ProcessAllWindowFunction ProcessFunction ProcessWindowFunction ReduceFunction RuntimeContext "
    "SinkFunction WindowFunction"
)
_SCHEMAS = "DeserializationSchema SerializationSchema"
_ROW_SCHEMAS = (
    "AvroRowDeserializationSchema AvroRowSerializationSchema CsvRowDeserializationSchema CsvRowSerializationSchema "
    "JsonRowDeserializationSchema JsonRowSerializationSchema"
)
_IMPORTED = {
    "common": _ROW_SCHEMAS,
    "common.job_client": "JobID",
    "common.job_execution_result": "JobID",
    "common.serialization": _ROW_SCHEMAS,  # as before PyFlink 1.16
    "common.watermark_strategy": "Duration",
    "datastream.async_data_stream": "Time TypeInformation",
    "datastream.async_retry_strategies": "AsyncRetryPredicate AsyncRetryStrategy",
    "datastream.checkpoint_config": "CheckpointingMode Duration",
    "datastream.connectors.cassandra": "Duration",
    "datastream.connectors.dynamic_kafka": "DeserializationSchema KafkaOffsetsInitializer Source",
    "datastream.connectors.elasticsearch": "DeliveryGuarantee Sink",
    "datastream.connectors.file_system": "SinkFunction Source",
    "datastream.connectors.jdbc": "SinkFunction",
    "datastream.connectors.kafka": "Row Sink SinkFunction Source SourceFunction TypeInformation Types",
    "datastream.connectors.kinesis": f"{_SCHEMAS} Sink SourceFunction",
    "datastream.connectors.number_seq": "Source",
    "datastream.connectors.pulsar": f"{_SCHEMAS} ConfigOption ConfigOptions DeliveryGuarantee Duration Sink Source",
    "datastream.connectors.rabbitmq": f"{_SCHEMAS} SinkFunction SourceFunction",
    "datastream.data_stream": f"{_FUNCTIONS} AggregatingStateDescriptor CountSlidingWindowAssigner "
    "CountTumblingWindowAssigner CountWindowSerializer ExecutionConfig GlobalWindowSerializer ListStateDescriptor "
    "MergingWindowAssigner ReducingState ReducingStateDescriptor Row Sink StateDescriptor TimeWindowSerializer "
    "TimestampAssigner Trigger Types WindowAssigner",
    "datastream.formats.avro": "TypeInformation",
    "datastream.formats.orc": "Configuration",
    "datastream.formats.parquet": "Configuration",
    "datastream.functions": "AggregatingState AggregatingStateDescriptor BroadcastState ListState ListStateDescriptor "
    "MapState MapStateDescriptor MetricGroup ReadOnlyBroadcastState ReducingState ReducingStateDescriptor ValueState "
    "ValueStateDescriptor",
    "datastream.output_tag": "TypeInformation Types",
    "datastream.state": "Duration Time TypeInformation Types",
    "datastream.stream_execution_environment": "JobExecutionResult RuntimeExecutionMode SourceFunction TypeInformation "
    "Types",
    "datastream.utils": "Configuration Row RowKind TypeInformation Types",
    "datastream.window": "MetricGroup OutputTag ReduceFunction ReducingState ReducingStateDescriptor RuntimeContext "
    "State StateDescriptor Time Types ValueStateDescriptor",
    "table.catalog": "DataType TableSchema",
    "table.compiled_plan": "ExplainDetail TableResult",
    "table.expression": "DataType DataTypes",
    "table.expressions": "DataType Expression JsonOnNull TimePointUnit",
    "table.schema": "DataType Expression",
    "table.statement_set": "CompiledPlan ExplainDetail TableDescriptor TablePipeline TableResult",
    "table.table": "ExplainDetail Expression GroupWindow OverWindow TableDescriptor TablePipeline TableResult "
    "ResolvedSchema TableSchema col with_columns without_columns",
    "table.table_descriptor": "ConfigOption Schema",
    "table.table_environment": "AggregateFunction CompiledPlan Configuration DataType PlanReference RowField RowType "
    "StatementSet TableAggregateFunction TypeInformation udaf udtaf",
    "table.table_pipeline": "CompiledPlan ExplainDetail ObjectIdentifier TableResult",
    "table.table_result": "ResolvedSchema Row RowKind TableSchema",
    "table.table_schema": "RowType",
    "table.udf": "DataType Expression MetricGroup",
    "table.window": "Expression",
}
"""Names, by the modules that import them."""
_FIRST_FOR_TABLES = (
    "table",
    "table.types",
    "table.udf",
    "table.window",
    "table.catalog",
    "table.expression",
    "table.expressions",
)
_HOMES = (
    "common",
    "datastream",
    "datastream.functions",
    "datastream.state",
    "datastream.window",
    "datastream.connectors.base",
    "datastream.connectors.kafka",
    "datastream.formats.avro",
    "datastream.formats.csv",
    "datastream.formats.json",
    "metrics",
)
"""Where names are, in the order in which they are looked for."""


def imported(module: str, otherwise: Callable[[str], Any] | None = None) -> Callable[[str], Any]:
    """The `__getattr__` of a module that has the names of others.

    Args:
        otherwise: is asked for the names that the module does not import.
    """
    own = module.removeprefix(_PACKAGE)
    names = frozenset(_IMPORTED[own].split())

    def found(name: str) -> Any:
        if name in names:
            homes = (*_FIRST_FOR_TABLES, *_HOMES) if own.startswith("table.") else _HOMES
            for home in homes:
                of_home = vars(importlib.import_module(_PACKAGE + home))
                if name in of_home:
                    return of_home[name]
        if otherwise is not None:
            return otherwise(name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return found
