from flinkray.pyflink.common import Row, Types
from flinkray.pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flinkray.pyflink.datastream.state import ValueStateDescriptor


class Thing:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"Thing({self.name})"

    def __reduce__(self):
        return Thing, (self.name,)


class Last(KeyedProcessFunction):
    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        yield self.last.value(), value
        self.last.update(value)


def annotated(value) -> int:
    return str(value)


def generated(value) -> str:
    yield value, {"n": value}
    yield [value]
    if value > 1:
        yield None, 1.5


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    mixed = [1, "two", 3.0, None, (4, "four"), [5, 6], {"seven": 8}, {9}, True, Row(1, "r"), Row(a=1, b=[2])]
    anything = env.from_collection([each for each in mixed if each is not None])
    anything.print("collection")
    env.from_collection([b"ten"]).map(lambda v: (v, len(v))).print("bytes")
    anything.map(lambda v: (type(v).__name__, v)).print("mapped")
    numbers = env.from_collection([1, 2, 3], type_info=Types.INT())
    numbers.map(annotated).map(lambda v: v + "!").print("annotated")
    numbers.flat_map(generated).print("generated")
    numbers.map(lambda v: v if v != 2 else "2").print("changing")
    numbers.map(lambda v: None if v == 2 else v).print("nothing")
    numbers.map(lambda v: {"id": v, "tags": {"a": [v, v + 1]}, "big": 10**30}).map(
        lambda d: (d["id"], d["tags"]["a"][1], d["big"])
    ).print("dicts")
    numbers.map(lambda v: Thing(v)).print("objects")
    numbers.map(lambda v: ("k", v)).key_by(lambda v: v[0]).process(Last()).print("state")
    numbers.map(lambda v: {"k": v % 2, "n": v}).key_by(lambda d: d["k"]).reduce(
        lambda a, b: {"k": a["k"], "n": a["n"] + b["n"]}
    ).print("reduced")
    env.execute("untyped")


if __name__ == "__main__":
    main()
