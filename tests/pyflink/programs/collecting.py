from flinkray.pyflink.common import JobStatus, Row, Types
from flinkray.pyflink.datastream import StreamExecutionEnvironment


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection(list(range(6)), type_info=Types.INT())
    with numbers.map(lambda v: v * v, Types.LONG()).execute_and_collect() as results:
        print(list(results))
    print(numbers.map(lambda v: (v, str(v)), Types.TUPLE([Types.INT(), Types.STRING()])).execute_and_collect(limit=3))
    print(numbers.map(lambda v: {"v": v}).execute_and_collect("untyped", 2))
    rows = numbers.map(lambda v: Row(v, v / 2), Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.DOUBLE()]))
    for row in rows.execute_and_collect(limit=2):
        print(row[0], row[1])
    iterator = numbers.execute_and_collect()
    print(iterator.next(), next(iterator))
    iterator.close()

    numbers.print()
    client = env.execute_async("asynchronous")
    result = client.get_job_execution_result().result()
    print(isinstance(result.get_net_runtime(), int), result.get_all_accumulator_results() == {}, flush=True)
    print(JobStatus.FINISHED.is_globally_terminal_state(), JobStatus.RUNNING.is_terminal_state())
    print(str(client.get_job_id()) == str(result.get_job_id()), flush=True)


if __name__ == "__main__":
    main()
