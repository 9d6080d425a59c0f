"""StateTtlConfig and its builder, with PyFlink's names."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest

from flinkray.state.descriptors import ValueStateDescriptor
from flinkray.state.time_to_live import (
    IncrementalCleanup,
    RocksdbCompactionCleanup,
    StateTtlConfig,
    TtlClock,
    TtlUpdateType,
    TtlVisibility,
)
from flinkray.time.time_units import Duration, Time
from flinkray.types.records import Millis


def test_a_builder_that_is_told_nothing_gives_flinks_defaults() -> None:
    config = StateTtlConfig.new_builder(Time.seconds(1)).build()
    assert config == StateTtlConfig(Millis(1000))
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    assert config.get_ttl() == timedelta(seconds=1)
    assert config.is_enabled()
    strategies = config.get_cleanup_strategies()
    assert strategies.is_cleanup_in_background()
    assert not strategies.in_full_snapshot()
    assert strategies.get_incremental_cleanup_strategy() == IncrementalCleanup(5, False)
    assert strategies.get_rocksdb_compact_filter_cleanup_strategy() == RocksdbCompactionCleanup(
        1000, Millis(30 * 86_400_000)
    )


def test_everything_that_is_set_is_in_the_config_which_can_be_shipped() -> None:
    config = (
        StateTtlConfig.new_builder(Time.seconds(1))
        .set_ttl(Duration.of_minutes(2))
        .update_ttl_on_read_and_write()
        .return_expired_if_not_cleaned_up()
        .use_processing_time()
        .cleanup_full_snapshot()
        .cleanup_incrementally(7, True)
        .cleanup_in_rocksdb_compact_filter(50, Duration.of_hours(1))
        .disable_cleanup_in_background()
        .build()
    )
    assert pickle.loads(pickle.dumps(config)) == config
    assert (config.ttl_ms, config.update_type) == (120_000, TtlUpdateType.ON_READ_AND_WRITE)
    assert (config.state_visibility, config.ttl_time_characteristic) == (
        TtlVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP,
        TtlClock.PROCESSING_TIME,
    )
    strategies = config.get_cleanup_strategies()
    assert strategies.in_full_snapshot()
    assert not strategies.is_cleanup_in_background()
    assert strategies.get_incremental_cleanup_strategy() == IncrementalCleanup(7, True)
    cleanup = strategies.get_rocksdb_compact_filter_cleanup_strategy()
    assert cleanup is not None
    assert cleanup.get_query_time_after_num_entries() == 50
    assert cleanup.get_periodic_compaction_time() == timedelta(hours=1)


def test_without_the_background_nothing_is_cleaned_up_that_was_not_asked_for() -> None:
    strategies = StateTtlConfig.new_builder("1 h").disable_cleanup_in_background().build().get_cleanup_strategies()
    assert strategies.get_incremental_cleanup_strategy() is None
    assert strategies.get_rocksdb_compact_filter_cleanup_strategy() is None


def test_a_disabled_time_to_live_is_not_active() -> None:
    config = StateTtlConfig.new_builder("1 h").set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    assert not config.is_enabled()
    assert ValueStateDescriptor("seen", ttl=config).active_ttl is None


def test_no_age_of_compacted_files_means_the_default_one() -> None:
    config = StateTtlConfig.new_builder("1 h").cleanup_in_rocksdb_compact_filter(17, None).build()
    assert config == StateTtlConfig.new_builder("1 h").cleanup_in_rocksdb_compact_filter(17).build()


def test_numbers_that_cannot_be_are_errors() -> None:
    with pytest.raises(ValueError, match="a time to live must be 1 ms or more, got 0 ms"):
        StateTtlConfig.new_builder(Time.seconds(0)).build()
    with pytest.raises(ValueError, match="cleanup_size must be 1 or more, got 0"):
        StateTtlConfig.new_builder("1 h").cleanup_incrementally(0, False)
    with pytest.raises(ValueError, match="query_time_after_num_entries must be 1 or more, got 0"):
        StateTtlConfig.new_builder("1 h").cleanup_in_rocksdb_compact_filter(0)
    with pytest.raises(ValueError, match="periodic_compaction_time must not be negative"):
        StateTtlConfig.new_builder("1 h").cleanup_in_rocksdb_compact_filter(1, timedelta(seconds=-1))
