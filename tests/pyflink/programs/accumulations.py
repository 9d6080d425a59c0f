from flinkray.pyflink.common import Row, Types
from flinkray.pyflink.datastream import StreamExecutionEnvironment


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    values = [("a", 3, 1.5), ("b", 5, 0.5), ("a", 1, 2.5), ("a", 2, 0.25), ("b", 5, 9.0), ("a", 1, 7.0)]
    tuples = Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE()])
    rows = Types.ROW_NAMED(["k", "n", "x"], [Types.STRING(), Types.INT(), Types.DOUBLE()])
    for name, stream in (
        ("untyped", env.from_collection(values)),
        ("tuples", env.from_collection(values, type_info=tuples)),
    ):
        keyed = stream.key_by(lambda v: v[0], key_type=Types.STRING())
        keyed.sum(1).print(name + " sum")
        keyed.sum(2).print(name + " sum of doubles")
        keyed.min(1).print(name + " min")
        keyed.max(2).print(name + " max")
        keyed.min_by(1).print(name + " min_by")
        keyed.max_by(1).print(name + " max_by")
    keyed_rows = env.from_collection([Row(*v) for v in values], type_info=rows).key_by(lambda v: v.k)
    keyed_rows.sum("n").print("rows sum")
    keyed_rows.min_by("x").print("rows min_by")
    keyed_rows.max(1).print("rows max")
    numbers = env.from_collection([1, 5, 2, 4, 3], type_info=Types.INT()).key_by(lambda v: v % 2)
    numbers.sum().print("numbers sum")
    numbers.max(0).print("numbers max")
    env.from_collection(values, type_info=tuples).project(2, 0).print("project")
    env.execute("accumulations")


if __name__ == "__main__":
    main()
