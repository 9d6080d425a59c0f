"""A directory that is watched by whole jobs, one of which goes on where the other stopped."""

from __future__ import annotations

from pathlib import Path

from flinkray import FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy
from tests.support.waiting import eventually

NO_WATERMARKS = WatermarkStrategy.no_watermarks()


def test_files_that_appear_are_read_once_also_by_the_job_that_goes_on(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    incoming, out = tmp_path / "in", tmp_path / "out"
    incoming.mkdir()
    (incoming / "0.csv").write_text("n\n0\n")
    env.enable_checkpointing("30 ms")

    def seen() -> list[int]:
        return sorted(int(line) for file in out.glob("[!.]*") for line in file.read_text().split()[1:])

    for run in range(2):
        env.set_parallelism(2 - run)
        rows = env.from_source(FileSource(incoming, monitor="20 ms"), NO_WATERMARKS, "files").uid("files")
        rows.sink_to(FileSink(out, "csv")).uid("out")
        client = env.execute_async()
        first = 2 * run + 1
        (incoming / ".next").write_text(f"n\n{first}\n")
        (incoming / ".next").rename(incoming / f"{first}.csv")
        eventually(seen, lambda found, last=first: found == list(range(last + 1)))  # type: ignore[misc]
        savepoint = client.stop_with_savepoint(str(tmp_path / "savepoints"), timeout=30)
        client.close()
        env.configure({"execution.state-recovery.path": savepoint})
        (incoming / f"{first + 1}.csv").write_text(f"n\n{first + 1}\n")
    assert seen() == [0, 1, 2, 3]
