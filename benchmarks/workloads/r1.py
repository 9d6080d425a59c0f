"""R1: W2d with and without 200 requests a second to its REST server, from a process of their own.

    python -m benchmarks.workloads.r1 --rows 100000000 --target ray --rate 200

Prints rows a second without (before and after) and with requests, the loss in percent, and of the requests how many
were answered and refused, and their times in milliseconds (median, 99 % and the longest). Requests are those of a page
that shows the job, and come at fixed times, so that one that waits for those before it counts from when it was due. The
rate of rows is that of the subtask that ran longest, so start-up is left out.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

from actors.rest.starting import ray_token
from benchmarks.checkpoint_overhead import running_s
from benchmarks.workloads.w2 import W2d
from flinkray import DiscardSink, StreamExecutionEnvironment

_CONNECTIONS = 16
_LOOK_S = 0.1
_TIMEOUT_S = 30.0


def measure(rows: int, target: str, parallelism: int, rate: int) -> dict[str, float]:
    run(1, target, parallelism, 0)  # imports, and on Ray its cluster
    # Before and after, as the machine may get faster or slower meanwhile.
    before, _ = run(rows, target, parallelism, 0)
    with_requests, answers = run(rows, target, parallelism, rate)
    without = (before + run(rows, target, parallelism, 0)[0]) / 2
    if not answers["requests"]:
        raise SystemExit(f"the job ended before there was a request: give more than {rows:,} --rows")
    loss = 100 * (1 - with_requests / without)
    return {"rows_per_s": without, "rows_per_s_with_requests": with_requests, "loss_percent": loss, **answers}


def run(rows: int, target: str, parallelism: int, rate: int) -> tuple[float, dict[str, float]]:
    """Rows a second of one job, and what its requests met.

    Args:
        rate: requests a second; 0: none, and no server.
    """
    options = {"execution.target": target, "parallelism.default": parallelism, **({"rest.port": 0} if rate else {})}
    env = StreamExecutionEnvironment.get_execution_environment(options)
    W2d().stream(env, rows).sink_to(DiscardSink())
    load = _start_load(rate) if rate else None
    client = env.execute_async("load")
    try:
        if load is not None and load.stdin is not None:
            load.stdin.write(f"{client.web_url} {client.job_id} {ray_token(os.environ)}\n")
            load.stdin.flush()
        pause = threading.Event()
        while not client.status().is_terminal:
            pause.wait(_LOOK_S)
        answers = {} if load is None else json.loads(load.communicate(timeout=2 * _TIMEOUT_S)[0])
        client.result()
        return rows / running_s(client), answers  # type: ignore[arg-type]
    finally:
        client.close()


def _start_load(rate: int) -> subprocess.Popen[str]:
    """A process that reads where to send requests, sends them until its input ends, and then prints what they met."""
    command = [sys.executable, "-m", "benchmarks.workloads.r1", "--load", "--rate", str(rate)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


# -- in a process of its own -----------------------------------------------------------------------------------------


class Load:
    """Requests at fixed times, over a few connections."""

    def __init__(self, url: str, job_id: str, token: str, rate: int) -> None:
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._place = urlsplit(url).netloc
        self._rate = rate
        self._ended = threading.Event()
        threading.Thread(target=self._await_end, daemon=True).start()
        self._paths = self._paths_of(job_id)
        self._begin = time.monotonic()
        self.times_ms: list[float] = []
        self.refused = 0

    def run(self) -> None:
        """Sends until standard input ends."""
        threads = [threading.Thread(target=self._send, args=(number,)) for number in range(_CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _await_end(self) -> None:
        sys.stdin.read()
        self._ended.set()

    def _send(self, number: int) -> None:
        connection = self._connection()
        while True:
            due = self._begin + number / self._rate
            if self._ended.wait(max(0.0, due - time.monotonic())):
                return
            status = self._ask(connection, self._paths[number % len(self._paths)])[0]
            if not self._ended.is_set():  # else the server may have ended with its job
                self.times_ms.append(1_000 * (time.monotonic() - due))
                self.refused += status != 200
            number += _CONNECTIONS

    def _paths_of(self, job_id: str) -> list[str]:
        """What a page asks for that shows the job and each of its vertices, once all of these run."""
        job, connection, vertices = f"/jobs/{job_id}", self._connection(), list[dict[str, str]]()
        while not (vertices and all(vertex["status"] == "RUNNING" for vertex in vertices)):
            if self._ended.wait(_LOOK_S):
                break
            status, body = self._ask(connection, job)
            vertices = json.loads(body)["vertices"] if status == 200 else []
        rates = "/subtasks/metrics?get=numRecordsInPerSecond"
        return [
            *("/overview", "/jobs/overview", job, f"{job}/checkpoints", f"{job}/exceptions", "/taskmanagers"),
            *(
                f"{job}/vertices/{vertex['id']}{path}"
                for vertex in vertices
                for path in ("", "/backpressure", "/history", "/watermarks", rates)
            ),
        ]

    def _ask(self, connection: http.client.HTTPConnection, path: str) -> tuple[int, bytes]:
        """Status and body; 0 where there is no answer."""
        try:
            connection.request("GET", path, headers=self._headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return 0, b""

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._place, timeout=_TIMEOUT_S)


def _print_load(rate: int) -> None:
    load = Load(*sys.stdin.readline().rstrip("\n").split(" "), rate=rate)
    load.run()
    times = sorted(load.times_ms) or [0.0]
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "longest_ms": 1.0}
    found = {name: times[min(len(times) - 1, int(share * len(times)))] for name, share in shares.items()}
    print(json.dumps({"requests": len(load.times_ms), "refused": load.refused, **found}))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000_000)
    parser.add_argument("--target", choices=("local", "ray"), default="ray")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--rate", type=int, default=200, help="requests a second")
    parser.add_argument("--load", action="store_true", help="only send the requests, as standard input says")
    given = parser.parse_args(arguments)
    if given.load:
        _print_load(given.rate)
    else:
        print(json.dumps(measure(given.rows, given.target, given.parallelism, given.rate)))


if __name__ == "__main__":
    main()
