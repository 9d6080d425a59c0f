from flinkray.pyflink.common import Time, Types, WatermarkStrategy
from flinkray.pyflink.common.watermark_strategy import TimestampAssigner
from flinkray.pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from flinkray.pyflink.datastream.window import TumblingEventTimeWindows


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1] * 100


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_parallelism(1)
    rows = [("b", 1), ("a", 2), ("b", 3), ("c", 4), ("a", 9), ("a", 14)]
    stream = env.from_collection(rows, type_info=Types.TUPLE([Types.STRING(), Types.INT()]))
    stream = stream.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    )
    keyed = stream.key_by(lambda v: v[0], key_type=Types.STRING())
    keyed.reduce(lambda a, b: (a[0], a[1] + b[1])).print("reduce")
    keyed.sum(1).print("sum")
    keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(lambda a, b: (a[0], a[1] * b[1])).print("windows")
    env.execute("batch")


if __name__ == "__main__":
    main()
