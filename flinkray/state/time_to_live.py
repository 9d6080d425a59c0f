"""Time to live of keyed state: what renews it, what is still returned after it, and how expired state goes away.

After Flink's StateTtlConfig, with PyFlink's names beside Python's (`TtlUpdateType.OnReadAndWrite` is
`TtlUpdateType.ON_READ_AND_WRITE`). Each value, list element and map entry has the time of its last renewal with it,
also in snapshots, so that a job that goes on with another time to live counts from that time.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

from flinkray.time.durations import Duration, to_millis
from flinkray.types.records import Millis

_DEFAULT_PERIODIC_COMPACTION_MS = Millis(30 * 86_400_000)


class TtlUpdateType(enum.Enum):
    """What renews an entry's time to live. Reading an expired entry never does."""

    DISABLED = "disabled"
    """Nothing expires, as without a time to live."""
    ON_CREATE_AND_WRITE = "on create and write"
    ON_READ_AND_WRITE = "on read and write"
    Disabled = DISABLED
    OnCreateAndWrite = ON_CREATE_AND_WRITE
    OnReadAndWrite = ON_READ_AND_WRITE


class TtlVisibility(enum.Enum):
    """Whether a read may give what has expired."""

    RETURN_EXPIRED_IF_NOT_CLEANED_UP = "return expired if not cleaned up"
    """The read that finds it expired gives it, and removes it."""
    NEVER_RETURN_EXPIRED = "never return expired"
    ReturnExpiredIfNotCleanedUp = RETURN_EXPIRED_IF_NOT_CLEANED_UP
    NeverReturnExpired = NEVER_RETURN_EXPIRED


class TtlClock(enum.Enum):
    """By which clock entries expire; Flink has this one only."""

    PROCESSING_TIME = "processing time"
    ProcessingTime = PROCESSING_TIME


@dataclass(frozen=True, slots=True)
class IncrementalCleanup:
    """How the hashmap backend cleans up; the rocksdb backend does not use it."""

    cleanup_size: int = 5
    """The number of keys that each access to the state looks at."""
    runs_for_every_record: bool = False
    """Whether each record looks at as many, also where it does not access the state."""

    def __post_init__(self) -> None:
        if self.cleanup_size < 1:
            raise ValueError(f"cleanup_size must be 1 or more, got {self.cleanup_size}")

    def get_cleanup_size(self) -> int:
        """The number of keys that each access to the state looks at."""
        return self.cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        """Whether each record looks at as many keys, also where it does not access the state."""
        return self.runs_for_every_record


@dataclass(frozen=True, slots=True)
class RocksdbCompactionCleanup:
    """How the rocksdb backend cleans up; the hashmap backend does not use it.

    Flink filters entries while RocksDB compacts its files. RocksDB offers that to no Python program, so writes look at
    further entries in turn (four for each that is written) and delete those that have expired; compaction then gives
    the space back.
    """

    query_time_after_num_entries: int = 1000
    """The number of entries that are looked at before the clock is read again."""
    periodic_compaction_time_ms: Millis = _DEFAULT_PERIODIC_COMPACTION_MS
    """Files older than this are compacted; 0: never for their age alone. Of several states the shortest counts."""

    def __post_init__(self) -> None:
        if self.query_time_after_num_entries < 1:
            raise ValueError(f"query_time_after_num_entries must be 1 or more, got {self.query_time_after_num_entries}")

    def get_query_time_after_num_entries(self) -> int:
        """The number of entries that are looked at before the clock is read again."""
        return self.query_time_after_num_entries

    def get_periodic_compaction_time(self) -> timedelta:
        """The age at which files are compacted."""
        return timedelta(milliseconds=self.periodic_compaction_time_ms)


@dataclass(frozen=True, slots=True)
class TtlCleanup:
    """How expired state goes that nobody reads any more. What is read goes then, whatever is set here."""

    is_full_snapshot: bool = False
    incremental: IncrementalCleanup | None = None
    """None: the default, where cleaning up in the background is on."""
    rocksdb_compaction: RocksdbCompactionCleanup | None = None
    """None: the default, where cleaning up in the background is on."""
    is_in_background: bool = True

    IncrementalCleanupStrategy: ClassVar = IncrementalCleanup
    RocksdbCompactFilterCleanupStrategy: ClassVar = RocksdbCompactionCleanup

    def is_cleanup_in_background(self) -> bool:
        """Whether each backend cleans up in its own way, also where nothing is set for it."""
        return self.is_in_background

    def in_full_snapshot(self) -> bool:
        """Whether full snapshots leave out what has expired, also where it may still be returned."""
        return self.is_full_snapshot

    def get_incremental_cleanup_strategy(self) -> IncrementalCleanup | None:
        """How the hashmap backend cleans up; None: not at all."""
        return self.incremental or (IncrementalCleanup() if self.is_in_background else None)

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> RocksdbCompactionCleanup | None:
        """How the rocksdb backend cleans up; None: not at all."""
        return self.rocksdb_compaction or (RocksdbCompactionCleanup() if self.is_in_background else None)


class StateTtlConfigBuilder:
    """What `StateTtlConfig.new_builder` gives. Each method gives the builder back."""

    def __init__(self, ttl: Duration) -> None:
        self._ttl_ms = to_millis(ttl, "ttl")
        self._update_type = TtlUpdateType.ON_CREATE_AND_WRITE
        self._visibility = TtlVisibility.NEVER_RETURN_EXPIRED
        self._characteristic = TtlClock.PROCESSING_TIME
        self._is_full_snapshot = False
        self._incremental: IncrementalCleanup | None = None
        self._rocksdb_compaction: RocksdbCompactionCleanup | None = None
        self._is_in_background = True

    def set_ttl(self, ttl: Duration) -> StateTtlConfigBuilder:
        """Sets the time to live."""
        self._ttl_ms = to_millis(ttl, "ttl")
        return self

    def set_update_type(self, update_type: TtlUpdateType) -> StateTtlConfigBuilder:
        """Sets what renews it."""
        self._update_type = update_type
        return self

    def update_ttl_on_create_and_write(self) -> StateTtlConfigBuilder:
        """Writing an entry renews it: the default."""
        return self.set_update_type(TtlUpdateType.ON_CREATE_AND_WRITE)

    def update_ttl_on_read_and_write(self) -> StateTtlConfigBuilder:
        """Reading an entry renews it, too."""
        return self.set_update_type(TtlUpdateType.ON_READ_AND_WRITE)

    def set_state_visibility(self, state_visibility: TtlVisibility) -> StateTtlConfigBuilder:
        """Sets whether a read may give what has expired."""
        self._visibility = state_visibility
        return self

    def return_expired_if_not_cleaned_up(self) -> StateTtlConfigBuilder:
        """A read may give what has expired, once."""
        return self.set_state_visibility(TtlVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)

    def never_return_expired(self) -> StateTtlConfigBuilder:
        """No read gives what has expired: the default."""
        return self.set_state_visibility(TtlVisibility.NEVER_RETURN_EXPIRED)

    def set_ttl_time_characteristic(self, ttl_time_characteristic: TtlClock) -> StateTtlConfigBuilder:
        """Sets by which clock entries expire; there is one."""
        self._characteristic = ttl_time_characteristic
        return self

    def use_processing_time(self) -> StateTtlConfigBuilder:
        """Entries expire by processing time: the default."""
        return self.set_ttl_time_characteristic(TtlClock.PROCESSING_TIME)

    def cleanup_full_snapshot(self) -> StateTtlConfigBuilder:
        """Full snapshots (all but the incremental ones of rocksdb) leave out what has expired. They always do where
        expired state is never returned; with this also where it may be. The running job's own state stays as it is."""
        self._is_full_snapshot = True
        return self

    def cleanup_incrementally(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> StateTtlConfigBuilder:
        """Sets how the hashmap backend cleans up; the arguments are those of IncrementalCleanup."""
        self._incremental = IncrementalCleanup(cleanup_size, run_cleanup_for_every_record)
        return self

    def cleanup_in_rocksdb_compact_filter(
        self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
    ) -> StateTtlConfigBuilder:
        """Sets how the rocksdb backend cleans up; the arguments are those of RocksdbCompactionCleanup.

        Args:
            periodic_compaction_time: None: the default.
        """
        given = _DEFAULT_PERIODIC_COMPACTION_MS if periodic_compaction_time is None else periodic_compaction_time
        period = to_millis(given, "periodic_compaction_time")
        self._rocksdb_compaction = RocksdbCompactionCleanup(query_time_after_num_entries, period)
        return self

    def disable_cleanup_in_background(self) -> StateTtlConfigBuilder:
        """Expired state that nobody reads stays, except by what is asked for with the other methods."""
        self._is_in_background = False
        return self

    def build(self) -> StateTtlConfig:
        """The time to live as set so far."""
        strategies = TtlCleanup(
            self._is_full_snapshot, self._incremental, self._rocksdb_compaction, self._is_in_background
        )
        return StateTtlConfig(self._ttl_ms, self._update_type, self._visibility, self._characteristic, strategies)


@dataclass(frozen=True, slots=True)
class StateTtlConfig:
    """Entries vanish `ttl_ms` of processing time after their last renewal.

    Made as it is, or as in PyFlink: `StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().build()`.
    """

    ttl_ms: Millis
    update_type: TtlUpdateType = TtlUpdateType.ON_CREATE_AND_WRITE
    state_visibility: TtlVisibility = TtlVisibility.NEVER_RETURN_EXPIRED
    ttl_time_characteristic: TtlClock = TtlClock.PROCESSING_TIME
    cleanup_strategies: TtlCleanup = field(default_factory=TtlCleanup)

    UpdateType: ClassVar = TtlUpdateType
    StateVisibility: ClassVar = TtlVisibility
    TtlTimeCharacteristic: ClassVar = TtlClock
    CleanupStrategies: ClassVar = TtlCleanup
    Builder: ClassVar = StateTtlConfigBuilder

    def __post_init__(self) -> None:
        if self.ttl_ms < 1:
            raise ValueError(f"a time to live must be 1 ms or more, got {self.ttl_ms} ms")

    @staticmethod
    def new_builder(ttl: Duration) -> StateTtlConfigBuilder:
        """Begins a time to live in PyFlink's way."""
        return StateTtlConfigBuilder(ttl)

    def get_update_type(self) -> TtlUpdateType:
        """What renews an entry."""
        return self.update_type

    def get_state_visibility(self) -> TtlVisibility:
        """Whether a read may give what has expired."""
        return self.state_visibility

    def get_ttl(self) -> timedelta:
        """The time to live."""
        return timedelta(milliseconds=self.ttl_ms)

    def get_ttl_time_characteristic(self) -> TtlClock:
        """By which clock entries expire."""
        return self.ttl_time_characteristic

    def get_cleanup_strategies(self) -> TtlCleanup:
        """How expired state goes that nobody reads any more."""
        return self.cleanup_strategies

    def is_enabled(self) -> bool:
        """Whether anything expires."""
        return self.update_type is not TtlUpdateType.DISABLED

    @property
    def returns_expired(self) -> bool:
        """Whether a read may give what has expired."""
        return self.state_visibility is TtlVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP

    @property
    def keeps_expired_in_snapshots(self) -> bool:
        """Whether a full snapshot has what has expired: only where a read may still give it, and it is not cleaned up
        there."""
        return self.returns_expired and not self.cleanup_strategies.is_full_snapshot
