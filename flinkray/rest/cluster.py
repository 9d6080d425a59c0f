"""The cluster: its masters, what it has of slots, and how it is configured."""

from __future__ import annotations

from msgspec import Struct, field


class Features(Struct, frozen=True, kw_only=True, rename="kebab"):
    """Which buttons a dashboard shows."""

    web_submit: bool
    web_cancel: bool
    web_rescale: bool
    web_history: bool


class DashboardConfiguration(Struct, frozen=True, kw_only=True, rename="kebab"):
    """What a dashboard asks first. Times are in milliseconds."""

    refresh_interval: int
    timezone_name: str
    timezone_offset: int
    flink_version: str
    """The version of flinkray."""
    flink_revision: str
    features: Features


class ClusterOverview(Struct, frozen=True, kw_only=True, rename="kebab"):
    """How much there is of everything."""

    taskmanagers: int
    slots_total: int
    slots_available: int
    jobs_running: int
    jobs_finished: int
    jobs_cancelled: int
    jobs_failed: int
    flink_version: str
    flink_commit: str


class ConfigurationEntry(Struct, frozen=True, kw_only=True):
    """One option that was set; the value of a secret is hidden."""

    key: str
    value: str


class JvmInfo(Struct, frozen=True, kw_only=True):
    """The Python that the masters run on, under the names of a Java one."""

    version: str
    arch: str
    options: list[str]


class Environment(Struct, frozen=True, kw_only=True):
    """What the process that answers runs on."""

    jvm: JvmInfo
    classpath: list[str]
    """The packages that are installed, with their versions."""


class ThreadInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """One thread, and what it does at this moment."""

    thread_name: str
    stringified_thread_info: str


class ThreadDump(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the threads of a process do."""

    thread_infos: list[ThreadInfo]


class LogFile(Struct, frozen=True, kw_only=True):
    """A log file; `size` is in bytes, `mtime` in epoch milliseconds."""

    name: str
    size: int
    mtime: int


class LogFiles(Struct, frozen=True, kw_only=True):
    """The log files of a process."""

    logs: list[LogFile]


class ErrorBody(Struct, frozen=True, kw_only=True):
    """Why a request was refused or failed: the body of every answer with a status from 400 on."""

    errors: list[str] = field(default_factory=list)


class DataSets(Struct, frozen=True, kw_only=True, rename="camel"):
    """Cached results of the cluster: there are none."""

    data_sets: list[str]
