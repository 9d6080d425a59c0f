from flinkray.pyflink.common import Row, Types
from flinkray.pyflink.datastream import KeyedProcessFunction, OutputTag, ProcessFunction, StreamExecutionEnvironment

EVEN = OutputTag("even", Types.LONG())
TEXT = OutputTag("text")
ROWS = OutputTag("rows", Types.ROW_NAMED(["n", "square"], [Types.LONG(), Types.LONG()]))


class Sort(ProcessFunction):
    def process_element(self, value, ctx: "ProcessFunction.Context"):
        if value % 2:
            yield value
        else:
            yield EVEN, value
        yield TEXT, {"value": value, "has_time": (ctx.timestamp() or -1) >= 0}
        yield ROWS, Row(value, value * value)


class SortKeyed(KeyedProcessFunction):
    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        yield EVEN, ctx.get_current_key() * 100 + value
        yield str(value)


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2, 3, 4], type_info=Types.LONG())
    odd = numbers.process(Sort(), output_type=Types.LONG())
    odd.print("main")
    odd.get_side_output(EVEN).print("even")
    odd.get_side_output(TEXT).print("text")
    odd.get_side_output(ROWS).map(lambda r: (r.n, r.square)).print("mapped")
    odd.get_side_output(ROWS).print("rows")
    keyed = numbers.key_by(lambda v: v % 2, key_type=Types.LONG()).process(SortKeyed(), Types.STRING())
    keyed.print("keyed")
    keyed.get_side_output(EVEN).print("by key")
    env.execute("side outputs")


if __name__ == "__main__":
    main()
