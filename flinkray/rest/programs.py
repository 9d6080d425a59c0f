"""Programs that are uploaded, which Flink's interface calls jars: what there is, and how one is run."""

from __future__ import annotations

from msgspec import Struct


class ProgramEntry(Struct, frozen=True, kw_only=True):
    """What can be run of a program: a module of an archive."""

    name: str
    description: str | None = None


class UploadedProgram(Struct, frozen=True, kw_only=True):
    """A program; `uploaded` is in epoch milliseconds."""

    id: str
    name: str
    uploaded: int
    entry: list[ProgramEntry]
    """The modules of an archive, `__main__` first; of a single file there is nothing to choose."""


class Programs(Struct, frozen=True, kw_only=True):
    """Uploaded programs, newest first; none where uploading is off."""

    address: str
    files: list[UploadedProgram]


class UploadedFile(Struct, frozen=True, kw_only=True):
    """A program was uploaded; what follows the last `/` of the file's name is its id."""

    filename: str
    status: str = "success"


class ProgramRequest(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How a program is to be run, or its graph made. What is not here may be in the query, under Flink's names."""

    entry_class: str | None = None
    """The module of an archive, or `module:function`; None: its `__main__`."""
    parallelism: int | str | None = None
    program_args_list: list[str] | None = None
    program_args: str | None = None
    """The same as one text, which is divided as a shell does."""
    job_id: str | None = None
    """Only None: a job's id is made when it is submitted."""
    flink_configuration: dict[str, str] | None = None
    """Options of the jobs, below what the program itself sets."""
    savepoint_path: str | None = None
    """The savepoint or checkpoint that the jobs start from."""
    allow_non_restored_state: bool | None = None
    claim_mode: str | None = None
    """NO_CLAIM, or nothing: savepoints stay their owner's."""


class SubmittedJob(Struct, frozen=True, kw_only=True):
    """The id of the first job that the program has submitted."""

    jobid: str
