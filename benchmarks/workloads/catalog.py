"""All workloads by their names."""

from __future__ import annotations

from benchmarks.workloads.base import Workload
from benchmarks.workloads.w1 import W1
from benchmarks.workloads.w2 import W2, W2d, W2dSql
from benchmarks.workloads.w3 import W3, W3x
from benchmarks.workloads.w4 import W4
from benchmarks.workloads.w5 import W5
from benchmarks.workloads.w6 import W6, W6d

THROUGHPUT: dict[str, Workload] = {
    workload.name: workload for workload in (W1(), W2(), W2d(), W2dSql(), W3(), W3x(), W4(), W5(), W6(), W6d())
}
