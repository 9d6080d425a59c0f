import os
import tempfile

from flinkray.pyflink.common import Encoder, Row, Types, WatermarkStrategy
from flinkray.pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from flinkray.pyflink.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)


def written(directory):
    lines = []
    for place, _, names in os.walk(directory):
        for name in names:
            assert (name[:3], name[-4:]) == ("out", ".log"), name
            with open(os.path.join(place, name)) as file:
                lines.extend(file.read().splitlines())
    return sorted(lines)


def sink(directory):
    return (
        FileSink.for_row_format(directory, Encoder.simple_string_encoder("UTF-8"))
        .with_bucket_check_interval(1000)
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(
            RollingPolicy.default_rolling_policy(part_size=1024, rollover_interval=1000, inactivity_interval=1000)
        )
        .with_output_file_config(OutputFileConfig.builder().with_part_prefix("out").with_part_suffix(".log").build())
        .build()
    )


def main():
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "in.txt"), "w") as file:
            file.write("one two\nthree\n\nfour five six\n")
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
        source = (
            FileSource.for_record_stream_format(StreamFormat.text_line_format(), os.path.join(directory, "in.txt"))
            .process_static_file_set()
            .build()
        )
        lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines", Types.STRING())
        lines.print()
        tuples = lines.flat_map(str.split, Types.STRING()).map(
            lambda w: (w, len(w), len(w) > 3, len(w) / 2),
            Types.TUPLE([Types.STRING(), Types.INT(), Types.BOOLEAN(), Types.DOUBLE()]),
        )
        tuples.sink_to(sink(os.path.join(directory, "tuples")))
        rows = tuples.map(
            lambda t: Row(t[0], t[1], t[2], None),
            Types.ROW_NAMED(
                ["word", "length", "is_long", "nothing"], [Types.STRING(), Types.INT(), Types.BOOLEAN(), Types.STRING()]
            ),
        )
        rows.sink_to(sink(os.path.join(directory, "rows")))
        lines.sink_to(sink(os.path.join(directory, "lines")))
        env.execute("files")
        for name in ("tuples", "rows", "lines"):
            print(name, written(os.path.join(directory, name)), flush=True)


if __name__ == "__main__":
    main()
