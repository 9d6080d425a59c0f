"""`pyflink.testing.test_case_utils`."""

from __future__ import annotations

from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = unavailable(
    __name__,
    "PyFlinkTestCase PyFlinkUTTestCase PyFlinkITTestCase PyFlinkStreamingTestCase PyFlinkBatchTestCase "
    "PyFlinkStreamTableTestCase PyFlinkBatchTableTestCase PyFlinkStreamingBatchTestCase",
    "it starts Flink; set FLINKRAY_EXECUTION_TARGET=local, and compare what execute_and_collect() or collect() give",
)
