"""Measures one side of a way in a process of its own: `python -m benchmarks.connectors.run WAY SIDE ADDRESS ...`.

After a small run that imports and connects, a small and a large one are measured; prints {"cpu_us": ...}, the CPU time
of this process for each row more, its threads included and the server's not, and {"rows_per_s": ...}.
"""

from __future__ import annotations

import argparse
import json
import time

from benchmarks.connectors.ways import WAYS


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=list(WAYS))
    parser.add_argument("side", choices=("client", "flinkray"))
    parser.add_argument("address")
    parser.add_argument("places", nargs="+", help="place:rows, first the small ones")
    given = parser.parse_args()
    work = getattr(WAYS[given.way], given.side)
    taken = []
    for text in given.places:
        place, _, count = text.rpartition(":")
        rows = int(count)
        WAYS[given.way].make(rows)
        began, used = time.monotonic(), time.process_time()
        work(given.address, place, rows)
        taken.append((rows, time.monotonic() - began, time.process_time() - used))
    (few, few_s, few_cpu_s), (many, many_s, many_cpu_s) = taken[-2:]
    more = many - few
    print(json.dumps({"cpu_us": (many_cpu_s - few_cpu_s) / more * 1e6, "rows_per_s": more / (many_s - few_s)}))


if __name__ == "__main__":
    main()
