from flinkray.pyflink.common import Types
from flinkray.pyflink.datastream import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    StreamExecutionEnvironment,
)
from flinkray.pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Collect(BroadcastProcessFunction):
    def process_element(self, value, ctx: "BroadcastProcessFunction.ReadOnlyContext"):
        ctx.get_broadcast_state(RULES).contains("x")
        yield "element", value

    def process_broadcast_element(self, value, ctx: "BroadcastProcessFunction.Context"):
        state = ctx.get_broadcast_state(RULES)
        state.put(value[0], value[1])
        yield "rules", sorted(state.items())


class CollectKeyed(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.INT()))

    def process_element(self, value, ctx: "KeyedBroadcastProcessFunction.ReadOnlyContext"):
        self.seen.update((self.seen.value() or 0) + 1)
        yield "element", ctx.get_current_key(), self.seen.value()

    def process_broadcast_element(self, value, ctx: "KeyedBroadcastProcessFunction.Context"):
        ctx.get_broadcast_state(RULES).put(value[0], value[1])
        yield "rules", value[0], ctx.get_broadcast_state(RULES).get(value[0])


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    elements = env.from_collection([1, 2, 3, 4], type_info=Types.INT())
    rules = env.from_collection([("a", 1), ("b", 2), ("a", 3)], type_info=Types.TUPLE([Types.STRING(), Types.INT()]))
    elements.connect(rules.broadcast(RULES)).process(Collect()).print("plain")
    elements.key_by(lambda v: v % 2).connect(rules.broadcast(RULES)).process(
        CollectKeyed(), Types.TUPLE([Types.STRING(), Types.PICKLED_BYTE_ARRAY(), Types.INT()])
    ).map(str).print("keyed")
    env.execute("broadcast")


if __name__ == "__main__":
    main()
