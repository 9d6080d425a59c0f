from flinkray.pyflink.common import Duration, Types, WatermarkStrategy
from flinkray.pyflink.common.watermark_strategy import TimestampAssigner
from flinkray.pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flinkray.pyflink.datastream.state import ValueStateDescriptor


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp: int) -> int:
        return value[1]


class Reminders(KeyedProcessFunction):
    def open(self, runtime_context):
        self.pending = runtime_context.get_state(ValueStateDescriptor("pending", Types.LONG()))

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        pending = self.pending.value()
        if pending is not None and pending < 9_000:
            ctx.timer_service().delete_event_time_timer(pending)
        self.pending.update(ctx.timestamp() + 1_000)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1_000)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1_000)
        yield "element", value[0], ctx.timestamp(), ctx.timer_service().current_watermark() == -9223372036854775808

    def on_timer(self, timestamp: int, ctx: "KeyedProcessFunction.OnTimerContext"):
        yield "timer", ctx.get_current_key(), timestamp, ctx.timestamp(), str(ctx.time_domain())
        if timestamp == 11_000:
            ctx.timer_service().register_event_time_timer(timestamp + 500)


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    rows = [("a", 1_000), ("b", 1_500), ("a", 1_800), ("c", 4_000), ("b", 10_000), ("a", 9_000)]
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2)).with_timestamp_assigner(Second())
    stream = env.from_collection(rows, type_info=Types.TUPLE([Types.STRING(), Types.LONG()]))
    timed = stream.assign_timestamps_and_watermarks(strategy)
    timed.key_by(lambda v: v[0], key_type=Types.STRING()).process(Reminders()).print()
    env.execute("timers")


if __name__ == "__main__":
    main()
