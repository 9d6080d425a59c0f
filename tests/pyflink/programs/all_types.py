import datetime
from decimal import Decimal

from flinkray.pyflink.common import Row, Types
from flinkray.pyflink.datastream import StreamExecutionEnvironment


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    scalars = [
        ("string", "text", Types.STRING()),
        ("boolean", True, Types.BOOLEAN()),
        ("byte", -5, Types.BYTE()),
        ("short", 300, Types.SHORT()),
        ("int", 70000, Types.INT()),
        ("long", 1 << 40, Types.LONG()),
        ("float", 1.1, Types.FLOAT()),
        ("double", 1.1, Types.DOUBLE()),
        ("small double", 1e-5, Types.DOUBLE()),
        ("large double", 12345678.9, Types.DOUBLE()),
        ("whole double", 3.0, Types.DOUBLE()),
        ("big dec", Decimal("12.75"), Types.BIG_DEC()),
        ("date", datetime.date(2024, 2, 29), Types.SQL_DATE()),
        ("time", datetime.time(10, 30, 15), Types.SQL_TIME()),
        ("timestamp", datetime.datetime(2024, 2, 29, 10, 30, 15, 250000), Types.SQL_TIMESTAMP()),
        ("list", ["a", "b"], Types.LIST(Types.STRING())),
        ("map", {"k": 1}, Types.MAP(Types.STRING(), Types.INT())),
        ("row", Row(1, "x"), Types.ROW([Types.INT(), Types.STRING()])),
        ("named row", Row(id=1, name="x"), Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])),
        (
            "tuple",
            (1, "x", 7, 2.5, True),
            Types.TUPLE([Types.INT(), Types.STRING(), Types.LONG(), Types.DOUBLE(), Types.BOOLEAN()]),
        ),
        (
            "tuple of arrays",
            ([1, 2], ["a", "b"]),
            Types.TUPLE([Types.PRIMITIVE_ARRAY(Types.INT()), Types.BASIC_ARRAY(Types.STRING())]),
        ),
        (
            "nested",
            ("a", (1, 2), Row(x=3, y="z")),
            Types.TUPLE(
                [
                    Types.STRING(),
                    Types.TUPLE([Types.INT(), Types.INT()]),
                    Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()]),
                ]
            ),
        ),
        (
            "row of all",
            Row("s", True, 1.5, None, [1], (1, "q")),
            Types.ROW(
                [
                    Types.STRING(),
                    Types.BOOLEAN(),
                    Types.DOUBLE(),
                    Types.INT(),
                    Types.LIST(Types.INT()),
                    Types.TUPLE([Types.INT(), Types.STRING()]),
                ]
            ),
        ),
        ("pickled", {"any": {1, 2}}, Types.PICKLED_BYTE_ARRAY()),
    ]
    only = env.from_collection([0], type_info=Types.INT())
    for name, value, type_info in scalars:
        made = only.map(lambda _, value=value: value, output_type=type_info)
        made.print(name)
        made.map(lambda v: (type(v).__name__, float(v) if isinstance(v, Decimal) else v)).print(name + " in Python")
        made.filter(lambda _: True).map(lambda v: v, output_type=type_info).print(name + " again")
    env.execute("types")


if __name__ == "__main__":
    main()
