from flinkray.pyflink.common import Types
from flinkray.pyflink.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    StreamExecutionEnvironment,
)
from flinkray.pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor


class Label(CoMapFunction):
    def map1(self, value):
        return "first", value

    def map2(self, value):
        return "second", value


class Split(CoFlatMapFunction):
    def flat_map1(self, value):
        yield value
        yield value * 10

    def flat_map2(self, value):
        if value != "drop":
            yield len(value)


class Count(CoProcessFunction):
    def open(self, runtime_context):
        self.counts = [0, 0]

    def process_element1(self, value, ctx: "CoProcessFunction.Context"):
        self.counts[0] += 1
        yield "one", self.counts[0]

    def process_element2(self, value, ctx: "CoProcessFunction.Context"):
        self.counts[1] += 1
        yield "two", self.counts[1]


class Enrich(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.name = runtime_context.get_state(ValueStateDescriptor("name", Types.STRING()))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.INT()))

    def process_element1(self, value, ctx: "KeyedCoProcessFunction.Context"):
        if self.name.value() is None:
            self.waiting.add(value[1])
        else:
            yield ctx.get_current_key(), self.name.value(), value[1]

    def process_element2(self, value, ctx: "KeyedCoProcessFunction.Context"):
        self.name.update(value[1])
        for amount in self.waiting.get():
            yield ctx.get_current_key(), value[1], amount
        self.waiting.clear()


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2, 3], type_info=Types.INT())
    words = env.from_collection(["x", "drop", "yy"], type_info=Types.STRING())
    numbers.connect(words).map(Label()).print()
    numbers.connect(words).flat_map(Split(), output_type=Types.INT()).print()
    numbers.connect(words).process(Count(), Types.TUPLE([Types.STRING(), Types.INT()])).print()
    orders = env.from_collection([(1, 10), (2, 20), (1, 30)], type_info=Types.TUPLE([Types.INT(), Types.INT()]))
    names = env.from_collection([(1, "one"), (2, "two")], type_info=Types.TUPLE([Types.INT(), Types.STRING()]))
    row = Types.ROW_NAMED(["id", "name", "amount"], [Types.INT(), Types.STRING(), Types.INT()])
    from flinkray.pyflink.common import Row

    class EnrichRow(Enrich):
        def process_element1(self, value, ctx):
            for result in super().process_element1(value, ctx):
                yield Row(*result)

        def process_element2(self, value, ctx):
            for result in super().process_element2(value, ctx):
                yield Row(*result)

    orders.connect(names).key_by(lambda o: o[0], lambda n: n[0], key_type=Types.INT()).process(EnrichRow(), row).print()
    orders.key_by(lambda o: o[0]).connect(names.key_by(lambda n: n[0])).process(Enrich()).print()
    env.execute("connected")


if __name__ == "__main__":
    main()
