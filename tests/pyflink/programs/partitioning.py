from flinkray.pyflink.common import Types
from flinkray.pyflink.datastream import MapFunction, Partitioner, RuntimeContext, StreamExecutionEnvironment


class WithSubtask(MapFunction):
    def open(self, runtime_context: RuntimeContext):
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value):
        return value, self.subtask


class Modulo(Partitioner):
    def partition(self, key, num_partitions):
        return key % num_partitions


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    first = env.from_collection([1, 2, 3, 4], type_info=Types.INT())
    second = env.from_collection([11, 12, 13, 14], type_info=Types.INT())
    both = first.union(second)
    pair = Types.TUPLE([Types.INT(), Types.INT()])
    both.partition_custom(Modulo(), lambda v: v).map(WithSubtask(), pair).print("custom")
    both.partition_custom(lambda key, count: (key + 1) % count, lambda v: v).map(WithSubtask(), pair).print("function")
    both.rebalance().map(lambda v: v + 100, Types.INT()).print("rebalance")
    both.shuffle().map(lambda v: v + 200, Types.INT()).print("shuffle")
    both.rescale().map(lambda v: v + 300, Types.INT()).print("rescale")
    first.broadcast().map(WithSubtask(), pair).print("broadcast")
    first.map(lambda v: v, Types.INT()).set_parallelism(1).name("one").uid("one-id").print("single").set_parallelism(1)
    first.map(lambda v: v * 2, Types.INT()).forward().filter(lambda v: v > 2).print("forward")
    env.execute("partitioning")


if __name__ == "__main__":
    main()
