from flinkray.pyflink.common import Time, Types, WatermarkStrategy
from flinkray.pyflink.common.watermark_strategy import TimestampAssigner
from flinkray.pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from flinkray.pyflink.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from flinkray.pyflink.datastream.state import ReducingStateDescriptor
from flinkray.pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    CountWindow,
    EventTimeSessionWindows,
    GlobalWindow,
    GlobalWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Values(ProcessWindowFunction[tuple, tuple, str, CountWindow]):
    def process(self, key, context, elements):
        yield key, [e[1] for e in elements]


class AllValues(ProcessAllWindowFunction[tuple, tuple, TimeWindow]):
    def process(self, context, elements):
        yield context.window().start, context.window().end, [e[0] for e in elements]


class AllNames(AllWindowFunction[tuple, str, TimeWindow]):
    def apply(self, window, inputs):
        yield "".join(i[0] for i in inputs)


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return 300 if element[0] == "a" else 100


class EveryThirdOfKey(Trigger[tuple, GlobalWindow]):
    def __init__(self):
        self.count = ReducingStateDescriptor("count", lambda a, b: a + b, Types.LONG())

    @staticmethod
    def of():
        return EveryThirdOfKey()

    def on_element(self, element, timestamp, window, ctx: "Trigger.TriggerContext"):
        state = ctx.get_partitioned_state(self.count)
        state.add(1)
        if state.get() >= 3:
            state.clear()
            return TriggerResult.FIRE_AND_PURGE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.count).clear()


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    rows = [("a", 10), ("b", 60), ("a", 120), ("a", 250), ("b", 300), ("a", 700), ("b", 710), ("a", 720), ("a", 1500)]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    kind = Types.TUPLE([Types.STRING(), Types.LONG()])
    stream = env.from_collection(rows, type_info=kind).assign_timestamps_and_watermarks(strategy)
    keyed = stream.key_by(lambda v: v[0], key_type=Types.STRING())
    keyed.count_window(2).process(Values()).print("count")
    keyed.count_window(3, 2).process(Values()).print("sliding count")
    keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2))).process(Values()).print(
        "purging"
    )
    keyed.window(GlobalWindows.create()).trigger(EveryThirdOfKey.of()).process(Values()).print("own trigger")
    keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).trigger(
        ContinuousEventTimeTrigger.of(Time.milliseconds(500))
    ).reduce(lambda a, b: (a[0], a[1] + b[1])).map(lambda v: v[0]).print("continuous")
    keyed.window(EventTimeSessionWindows.with_dynamic_gap(Gap())).process(Values()).print("sessions")
    stream.window_all(TumblingEventTimeWindows.of(Time.milliseconds(500))).process(AllValues()).print("all")
    stream.window_all(TumblingEventTimeWindows.of(Time.seconds(1))).apply(AllNames(), Types.STRING()).print("names")
    stream.window_all(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(lambda a, b: (a[0] + b[0], b[1])).print(
        "joined"
    )
    env.execute("other windows")


if __name__ == "__main__":
    main()
