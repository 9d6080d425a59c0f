"""What becomes of each option that Flink has for tables: it is honoured, without effect with a word, or refused."""

from __future__ import annotations

import logging

import pytest

from flinkray.config import configuration as module
from flinkray.config.configuration import Configuration
from flinkray.config.flink_table_options import FIXED, WITHOUT_EFFECT
from flinkray.config.options import declared_options
from flinkray.errors import ConfigurationError

OF_FLINK = """
table.builtin-catalog-name table.builtin-database-name table.catalog-modification.listeners
table.column-expansion-strategy table.display.max-column-width table.dml-sync table.dynamic-table-options.enabled
table.exec.async-lookup.buffer-capacity table.exec.async-lookup.key-ordered-enabled
table.exec.async-lookup.output-mode table.exec.async-lookup.timeout
table.exec.async-ml-predict.max-concurrent-operations table.exec.async-ml-predict.output-mode
table.exec.async-ml-predict.timeout table.exec.async-scalar.max-attempts
table.exec.async-scalar.max-concurrent-operations table.exec.async-scalar.retry-delay
table.exec.async-scalar.retry-strategy table.exec.async-scalar.timeout table.exec.async-state.enabled
table.exec.async-table.max-concurrent-operations table.exec.async-table.max-retries table.exec.async-table.retry-delay
table.exec.async-table.retry-strategy table.exec.async-table.timeout
table.exec.async-vector-search.max-concurrent-operations table.exec.async-vector-search.output-mode
table.exec.async-vector-search.timeout table.exec.deduplicate.insert-update-after-sensitive-enabled
table.exec.deduplicate.mini-batch.compact-changes-enabled table.exec.delta-join.cache-enabled
table.exec.delta-join.left.cache-size table.exec.delta-join.right.cache-size table.exec.disabled-operators
table.exec.interval-join.min-cleanup-interval table.exec.legacy-cast-behaviour
table.exec.local-hash-agg.adaptive.distinct-value-rate-threshold table.exec.local-hash-agg.adaptive.enabled
table.exec.local-hash-agg.adaptive.sampling-threshold table.exec.mini-batch.allow-latency
table.exec.mini-batch.enabled table.exec.mini-batch.size table.exec.operator-fusion-codegen.enabled
table.exec.rank.topn-cache-size table.exec.resource.default-parallelism table.exec.resource.external-buffer-memory
table.exec.resource.hash-agg.memory table.exec.resource.hash-join.memory table.exec.resource.sort.memory
table.exec.simplify-operator-name-enabled table.exec.sink.keyed-shuffle table.exec.sink.nested-constraint-enforcer
table.exec.sink.not-null-enforcer table.exec.sink.require-on-conflict table.exec.sink.rowtime-inserter
table.exec.sink.type-length-enforcer table.exec.sink.upsert-materialize
table.exec.sink.upsert-materialize-strategy.adaptive.threshold.high
table.exec.sink.upsert-materialize-strategy.adaptive.threshold.low table.exec.sink.upsert-materialize-strategy.type
table.exec.sort.async-merge-enabled table.exec.sort.default-limit table.exec.sort.max-num-file-handles
table.exec.source.cdc-events-duplicate table.exec.source.idle-timeout table.exec.spill-compression.block-size
table.exec.spill-compression.enabled table.exec.state.ttl table.exec.uid.format table.exec.uid.generation
table.exec.unbounded-over.version table.exec.window-agg.buffer-size-limit table.generated-code.max-length
table.generated-code.max-members table.legacy-nested-row-nullability table.local-time-zone
table.optimizer.adaptive-broadcast-join.strategy table.optimizer.agg-phase-strategy
table.optimizer.bushy-join-reorder-threshold table.optimizer.delta-join.strategy
table.optimizer.distinct-agg.split.bucket-num table.optimizer.distinct-agg.split.enabled
table.optimizer.dynamic-filtering.enabled table.optimizer.incremental-agg-enabled
table.optimizer.join-reorder-enabled table.optimizer.join.broadcast-threshold table.optimizer.multi-join.enabled
table.optimizer.multiple-input-enabled table.optimizer.non-deterministic-update.strategy table.optimizer.ptf.max-tables
table.optimizer.reuse-optimize-block-with-digest-enabled table.optimizer.reuse-sink-enabled
table.optimizer.reuse-source-enabled table.optimizer.reuse-sub-plan-enabled table.optimizer.runtime-filter.enabled
table.optimizer.runtime-filter.max-build-data-size table.optimizer.runtime-filter.min-filter-ratio
table.optimizer.runtime-filter.min-probe-data-size table.optimizer.skewed-join-optimization.skewed-factor
table.optimizer.skewed-join-optimization.skewed-threshold table.optimizer.skewed-join-optimization.strategy
table.optimizer.source.report-statistics-enabled table.optimizer.sql2rel.project-merge.enabled
table.optimizer.union-all-as-breakpoint-enabled table.plan.compile.catalog-objects table.plan.force-recompile
table.plan.restore.catalog-objects table.resources.download-dir table.rtas-ctas.atomicity-enabled table.sql-dialect
"""
"""All keys that begin with `table.` in Flink 2.3's TableConfigOptions, ExecutionConfigOptions and
OptimizerConfigOptions."""


def test_all_options_of_flink_s_tables_are_known() -> None:
    assert [key for key in OF_FLINK.split() if key not in declared_options()] == []


def test_an_option_without_effect_is_said_once_and_where_it_asks_for_something_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    module._warn_once.cache_clear()
    for why, options in WITHOUT_EFFECT.items():
        for key, default in options.items():
            caplog.clear()
            Configuration({key: default})
            assert caplog.messages == [], key
            for _ in range(2):
                Configuration({key: "17"})
            assert caplog.messages == [f"option {key!r} has no effect here: {why}"]
    assert all(record.levelno == logging.WARNING for record in caplog.records)


def test_a_value_that_would_change_what_a_query_gives_is_refused_with_the_reason() -> None:
    for key, (value, why) in FIXED.items():
        Configuration({key: value})
        with pytest.raises(ConfigurationError) as caught:
            Configuration({key: "something else"})
        assert f"option {key!r} must be {value or 'empty'}, since {why}" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("table.exec.mini-batch.sise", "5", "did you mean 'table.exec.mini-batch.size'"),
        ("table.exec.sink.not-null-enforcer", "IGNORE", "one of ERROR, DROP"),
        ("table.exec.resource.default-parallelism", "0", "at least 1, or -1"),
    ],
)
def test_what_is_wrong_is_refused(key: str, value: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Configuration({key: value})
