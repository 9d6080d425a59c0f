from flinkray.pyflink.common import Time, Types
from flinkray.pyflink.datastream import (
    AggregateFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from flinkray.pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)


class Average(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class AllStates(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        ttl = (
            StateTtlConfig.new_builder(Time.hours(1))
            .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
            .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
            .build()
        )
        last = ValueStateDescriptor("last", Types.LONG())
        last.enable_time_to_live(ttl)
        self.last = runtime_context.get_state(last)
        seen = ListStateDescriptor("seen", Types.LONG())
        seen.enable_time_to_live(ttl)
        self.seen = runtime_context.get_list_state(seen)
        counts = MapStateDescriptor("counts", Types.STRING(), Types.INT())
        counts.enable_time_to_live(ttl)
        self.counts = runtime_context.get_map_state(counts)
        self.total = runtime_context.get_reducing_state(
            ReducingStateDescriptor("total", lambda a, b: a + b, Types.LONG())
        )
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Average(), Types.TUPLE([Types.LONG(), Types.LONG()]))
        )

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        number = value[1]
        parity = "odd" if number % 2 else "even"
        before = self.last.value()
        self.last.update(number)
        self.seen.add(number)
        if self.counts.contains(parity):
            self.counts.put(parity, self.counts.get(parity) + 1)
        else:
            self.counts.put(parity, 1)
        self.total.add(number)
        self.mean.add(number)
        yield (
            ctx.get_current_key(),
            before,
            list(self.seen.get()),
            sorted(self.counts.items()),
            sorted(self.counts.keys()),
            sorted(self.counts.values()),
            self.counts.is_empty(),
            self.total.get(),
            self.mean.get(),
        )
        if number >= 9:
            self.last.clear()
            self.seen.update([100])
            self.seen.add_all([200, 300])
            self.counts.remove(parity)
            self.total.clear()
            self.mean.clear()


class CountCalls(MapFunction):
    def open(self, runtime_context):
        self.calls = runtime_context.get_state(ValueStateDescriptor("calls", Types.INT()))

    def map(self, value):
        calls = (self.calls.value() or 0) + 1
        self.calls.update(calls)
        return value[0], calls


class EverySecond(FlatMapFunction):
    def open(self, runtime_context):
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.PICKLED_BYTE_ARRAY()))

    def flat_map(self, value):
        self.waiting.add({"number": value[1]})
        waiting = list(self.waiting.get())
        if len(waiting) == 2:
            self.waiting.clear()
            yield value[0], [each["number"] for each in waiting]


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = [("a", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 9), ("b", 5), ("a", 11), ("a", 6)]
    stream = env.from_collection(numbers, type_info=Types.TUPLE([Types.STRING(), Types.LONG()]))
    keyed = stream.key_by(lambda v: v[0], key_type=Types.STRING())
    keyed.process(AllStates()).print()
    env.execute("states")
    keyed.map(CountCalls(), output_type=Types.TUPLE([Types.STRING(), Types.INT()])).print()
    keyed.flat_map(EverySecond()).print()
    env.execute("stateful functions")


if __name__ == "__main__":
    main()
