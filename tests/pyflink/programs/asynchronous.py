import asyncio

from flinkray.pyflink.common import Row, Time, Types
from flinkray.pyflink.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy, StreamExecutionEnvironment
from flinkray.pyflink.datastream.async_retry_predicates import empty_result_predicate, has_exception_predicate


class Look(AsyncFunction[Row, str]):
    def __init__(self):
        self.failed = set()

    async def async_invoke(self, value: Row) -> list[str]:
        await asyncio.sleep(0.01 * (4 - value.id % 4))
        if value.id == 3 and value.id not in self.failed:
            self.failed.add(value.id)
            raise ValueError("once")
        return [f"{value.name}={value.id}"] * (value.id % 3)

    def timeout(self, value: Row) -> list[str]:
        return ["timeout"]


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    rows = [Row(n, "n") for n in range(1, 8)]
    stream = env.from_collection(rows, type_info=Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()]))
    retry = AsyncRetryStrategy.fixed_delay(3, 10, empty_result_predicate, has_exception_predicate)
    AsyncDataStream.ordered_wait_with_retry(stream, Look(), Time.seconds(10), retry, 100, Types.STRING()).print(
        "ordered"
    )
    AsyncDataStream.unordered_wait_with_retry(stream, Look(), Time.seconds(10), retry, capacity=2).print("unordered")
    env.execute("asynchronous")


if __name__ == "__main__":
    main()
