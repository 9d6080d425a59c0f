from flinkray.pyflink.common import Types
from flinkray.pyflink.datastream import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    ReduceFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)


class Multiply(MapFunction):
    def __init__(self, factor):
        self.factor = factor
        self.opened = False

    def open(self, runtime_context: RuntimeContext):
        self.opened = True
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.parallelism = runtime_context.get_number_of_parallel_subtasks()

    def map(self, value):
        return value[0], value[1] * self.factor, self.opened, self.subtask, self.parallelism


class Repeat(FlatMapFunction):
    def flat_map(self, value):
        for i in range(value[1] % 3):
            yield value[0], i


class Long(FilterFunction):
    def filter(self, value):
        return len(value[0]) > 1


class FirstLetter(KeySelector):
    def get_key(self, value):
        return value[0][0]


class Join(ReduceFunction):
    def reduce(self, value1, value2):
        return value1[0] + "+" + value2[0], value1[1] + value2[1]


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    words = [("apple", 3), ("b", 4), ("avocado", 5), ("cherry", 7), ("c", 8), ("apricot", 1)]
    typed = env.from_collection(words, type_info=Types.TUPLE([Types.STRING(), Types.INT()]))
    typed.map(Multiply(10)).print("untyped")
    typed.map(
        Multiply(2),
        output_type=Types.TUPLE([Types.STRING(), Types.LONG(), Types.BOOLEAN(), Types.INT(), Types.INT()]),
    ).print("typed")
    env.execute("map")
    typed.flat_map(Repeat(), output_type=Types.TUPLE([Types.STRING(), Types.INT()])).print()
    env.execute("flat map")
    typed.filter(Long()).key_by(FirstLetter(), key_type=Types.STRING()).reduce(Join()).print()
    env.execute("reduce")
    typed.flat_map(lambda v: [v[0]] * (v[1] // 4)).filter(lambda v: "r" in v).map(str.upper).print()
    env.execute("lambdas")
    typed.map(lambda v: len(v[0]), output_type=Types.INT()).print()
    env.execute("scalars")


if __name__ == "__main__":
    main()
