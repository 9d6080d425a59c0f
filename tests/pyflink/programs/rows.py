from flinkray.pyflink.common import Row, Types
from flinkray.pyflink.datastream import StreamExecutionEnvironment


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    person = Types.ROW_NAMED(["name", "age", "scores"], [Types.STRING(), Types.INT(), Types.LIST(Types.DOUBLE())])
    people = [Row(name="Ann", age=30, scores=[1.5, 2.0]), Row(name="Bob", age=25, scores=[]), ("Cy", 7, None)]
    stream = env.from_collection(people, type_info=person)
    stream.print()
    stream.map(lambda r: (r.name, r["age"], r[1] + 1, r.as_dict()["name"], len(r))).print()
    stream.map(lambda r: Row(r.name, r.age)).print()
    stream.map(lambda r: Row(r.age, r.name), output_type=Types.ROW([Types.INT(), Types.STRING()])).map(
        lambda r: (r[0], r[1])
    ).print()
    stream.map(
        lambda r: Row(who=r.name, old=r.age > 26),
        output_type=Types.ROW_NAMED(["who", "old"], [Types.STRING(), Types.BOOLEAN()]),
    ).print()
    stream.filter(lambda r: r.age > 10).key_by(lambda r: r.age % 5, key_type=Types.INT()).reduce(
        lambda a, b: Row(name=a.name + b.name, age=a.age + b.age, scores=[])
    ).print()
    env.execute("rows")
    Point = Row("x", "y")
    point = Point(1, 2)
    print(point.x, point["y"], point.as_dict(), list(point), len(point), point == Row(x=1, y=2), Row(1, 2) == Row(1, 2))
    print(repr(point), repr(Row(1, "a")), flush=True)


if __name__ == "__main__":
    main()
