from collections.abc import Iterable

from flinkray.pyflink.common import Duration, Time, Types, WatermarkStrategy
from flinkray.pyflink.common.watermark_strategy import TimestampAssigner
from flinkray.pyflink.datastream import (
    AggregateFunction,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from flinkray.pyflink.datastream.state import ValueStateDescriptor
from flinkray.pyflink.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class Mean(AggregateFunction):
    def create_accumulator(self):
        return [0, 0]

    def add(self, value, accumulator):
        return [accumulator[0] + value[1], accumulator[1] + 1]

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return [a[0] + b[0], a[1] + b[1]]


class WithWindow(ProcessWindowFunction[float, tuple, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[float]):
        firings = context.global_state().get_state(ValueStateDescriptor("firings", Types.INT()))
        firings.update((firings.value() or 0) + 1)
        yield key, context.window().start, context.window().end, list(elements), firings.value()

    def clear(self, context):
        pass


class Total(WindowFunction[tuple, tuple, str, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[tuple]):
        return [(key, window.start, window.max_timestamp(), sum(i[1] for i in inputs))]


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    rows = [("a", 1, 100), ("a", 2, 900), ("b", 5, 1_100), ("a", 3, 1_900), ("b", 7, 2_500), ("a", 4, 4_200)]
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(500)).with_timestamp_assigner(At())
    kind = Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()])
    stream = env.from_collection(rows, type_info=kind).assign_timestamps_and_watermarks(strategy)
    keyed = stream.key_by(lambda v: v[0], key_type=Types.STRING())
    keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(
        lambda a, b: (a[0], a[1] + b[1], max(a[2], b[2]))
    ).print("reduce")
    keyed.window(TumblingEventTimeWindows.of(Time.seconds(2), Time.milliseconds(500))).aggregate(
        Mean(), output_type=Types.DOUBLE()
    ).print("aggregate")
    keyed.window(TumblingEventTimeWindows.of(Time.seconds(2))).aggregate(Mean(), WithWindow()).print("both")
    keyed.window(TumblingEventTimeWindows.of(Time.seconds(2))).aggregate(
        Mean(),
        window_function=WithWindow(),
        accumulator_type=Types.LIST(Types.INT()),
        output_type=Types.ROW([Types.STRING(), Types.LONG(), Types.LONG(), Types.LIST(Types.DOUBLE()), Types.INT()]),
    ).map(lambda row: (row[0], row[3])).print("as rows")
    keyed.window(SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1))).apply(
        Total(), Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.INT()])
    ).print("sliding")
    keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(900))).process(WithWindow()).print("session")
    late = OutputTag("late", Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()]))
    windowed = (
        keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).allowed_lateness(0).side_output_late_data(late)
    )
    result = windowed.reduce(lambda a, b: (a[0], a[1] + b[1], a[2]), WithWindow())
    result.print("with late")
    result.get_side_output(late).print("late")
    env.execute("time windows")


if __name__ == "__main__":
    main()
