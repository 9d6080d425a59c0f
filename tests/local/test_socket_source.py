"""Lines from a socket in whole jobs."""

from __future__ import annotations

import socket
import threading
from collections import Counter

import pytest

from flinkray import Count, JobExecutionError, SocketSource, StreamExecutionEnvironment, WatermarkStrategy
from tests.support.listening import deserted_port

NO_WATERMARKS = WatermarkStrategy.no_watermarks()
DEADLINE = 30.0


def test_words_of_a_socket_are_counted(env: StreamExecutionEnvironment) -> None:
    lines = [f"to be {number % 7} or not to be" for number in range(5_000)]
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE)

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall("\r\n".join(lines).encode())

        thread = threading.Thread(target=serve)
        thread.start()
        source = SocketSource("127.0.0.1", server.getsockname()[1])
        words = env.from_source(source, NO_WATERMARKS, "lines").flat_map(lambda line: line.split(" "), output_type=str)
        counted = words.map(lambda word: {"word": word}).key_by("word").aggregate(count=Count())
        found: dict[str, int] = {}
        with counted.execute_and_collect() as rows:
            for row in rows:
                found[row["word"]] = max(found.get(row["word"], 0), row["count"])
        thread.join(DEADLINE)
    assert found == Counter(word for line in lines for word in line.split(" "))


def test_a_job_whose_server_is_not_there_says_so(env: StreamExecutionEnvironment) -> None:
    with deserted_port() as port:
        env.from_source(SocketSource("127.0.0.1", port), NO_WATERMARKS, "lines").print()
        with pytest.raises(JobExecutionError, match=rf"127\.0\.0\.1:{port}\): cannot connect"):
            env.execute()
