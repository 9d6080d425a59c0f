"""Files and checkpoints in a store that speaks S3, which shows whole files only and cannot rename them."""

from __future__ import annotations

import itertools

import pytest
from pyarrow import fs

from flinkray import (
    FileCompaction,
    FileSink,
    FileSource,
    InvalidProgramError,
    JobExecutionError,
    PartitionCommit,
    RestartStrategies,
    WatermarkStrategy,
)
from flinkray.testing import Crash, ScriptedSource
from tests.servers.test_kafka_source import environment
from tests.support.servers.s3 import KEY, SECRET, S3Store

pytestmark = [pytest.mark.s3, pytest.mark.timeout(180)]

_names = itertools.count()


@pytest.fixture
def bucket(s3: S3Store) -> str:
    name = f"bucket-{next(_names)}"
    s3.filesystem().create_dir(name)
    return name


def files(s3: S3Store, directory: str) -> list[str]:
    found = s3.filesystem().get_file_info(fs.FileSelector(directory, recursive=True, allow_not_found=True))
    return sorted(info.path.removeprefix(f"{directory}/") for info in found if info.type is fs.FileType.File)


@pytest.mark.parametrize("compacts", [False, True])
def test_rows_are_in_the_store_once_whatever_fails_and_so_are_checkpoints(
    s3: S3Store, bucket: str, compacts: bool
) -> None:
    """The directories are named by URIs alone, with the address and the keys of the store."""
    sink = FileSink(
        s3.uri(f"{bucket}/out"),
        partition_by=["k"],
        compaction=FileCompaction() if compacts else None,
        partition_commit=PartitionCommit() if compacts else None,
    )
    env = environment(**{"execution.checkpointing.dir": s3.uri(f"{bucket}/checkpoints")})
    env.enable_checkpointing(50)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(2, 10))
    env.set_parallelism(2)
    script = [*({"n": n, "k": n % 2} for n in range(20)), Crash, *({"n": n, "k": n % 2} for n in range(20, 30))]
    rows = env.from_source(ScriptedSource(script), WatermarkStrategy.no_watermarks(), "rows")
    rows.rebalance().sink_to(sink)
    env.execute("into a store")
    source = FileSource(s3.uri(f"{bucket}/out"), "parquet", {"n": int, "k": int}, partition_columns=["k"])
    found = source.read_all()
    assert sorted(found.column("n").to_pylist()) == list(range(30))
    marks = [name for name in files(s3, f"{bucket}/out") if name.endswith("_SUCCESS")]
    assert marks == (["k=0/_SUCCESS", "k=1/_SUCCESS"] if compacts else [])
    assert not [name for name in files(s3, f"{bucket}/out") if name.endswith(".inprogress")]


def test_an_error_of_the_store_does_not_show_its_keys(s3: S3Store) -> None:
    with pytest.raises(InvalidProgramError) as raised:
        FileSource(s3.uri("no-such-bucket/out"), "parquet").read_all()
    assert SECRET not in str(raised.value)
    assert KEY not in str(raised.value)


def test_a_bucket_that_is_not_there_is_to_be_created(s3: S3Store) -> None:
    env = environment(1)
    env.from_collection([1]).sink_to(FileSink(s3.uri("no-such-bucket/out"))).name("files")
    with pytest.raises(JobExecutionError, match=r"files.*no-such-bucket.*there is no such bucket; create it") as failed:
        env.execute()
    assert SECRET not in str(failed.value)
