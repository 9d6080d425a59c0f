"""Options of Flink's tables and SQL that change nothing here, and those that may have one value only.

Together with `table_options.py` they are all that Flink 2.3 has of `table.`, so that a program finds out what each
does.
"""

from __future__ import annotations

from flinkray.config.option import Valid, option
from flinkray.config.parsers import plain_text

_ONE_WAY = "tables are joined and aggregated in one way, by the keys that are compared"
_MEMORY = "what operators of batch mode hold is bounded by flinkray.batch.sort-memory"
_NO_CODE = "no code is generated: operators work on whole columns"
_LOOKUPS = "a table is asked once for all keys of a batch, and rows stay in order"
_FUNCTIONS = "functions of the user's take whole batches, in order; a slow service is asked by AsyncDataStream"
_NO_MODELS = "there are no models here"
_ALWAYS_COMPACT = "of the changes of one row in a batch the last one is given, and the first is an insert"
_STATE = "the operators of SQL keep their state in memory, in columns"
_NOTHING_TOLD = "the planner does without what sources tell of their rows"
_FIXED_RULES = "rules are applied in one order, whatever a plan costs"

WITHOUT_EFFECT: dict[str, dict[str, str]] = {
    _ONE_WAY: {
        "table.exec.disabled-operators": "",
        "table.exec.delta-join.cache-enabled": "false",
        "table.exec.delta-join.left.cache-size": "10000",
        "table.exec.delta-join.right.cache-size": "10000",
        "table.optimizer.adaptive-broadcast-join.strategy": "NONE",
        "table.optimizer.delta-join.strategy": "NONE",
        "table.optimizer.join.broadcast-threshold": "-1",
        "table.optimizer.multi-join.enabled": "false",
        "table.optimizer.multiple-input-enabled": "false",
        "table.optimizer.skewed-join-optimization.skewed-factor": "4.0",
        "table.optimizer.skewed-join-optimization.skewed-threshold": "256 mb",
        "table.optimizer.skewed-join-optimization.strategy": "NONE",
    },
    "the values of DISTINCT are kept where their group is": {
        "table.optimizer.distinct-agg.split.bucket-num": "1024",
        "table.optimizer.distinct-agg.split.enabled": "false",
        "table.optimizer.incremental-agg-enabled": "false",
    },
    _MEMORY: {
        "table.exec.local-hash-agg.adaptive.distinct-value-rate-threshold": "0.5",
        "table.exec.local-hash-agg.adaptive.enabled": "false",
        "table.exec.local-hash-agg.adaptive.sampling-threshold": "500000",
        "table.exec.resource.external-buffer-memory": "10 mb",
        "table.exec.resource.hash-agg.memory": "128 mb",
        "table.exec.resource.hash-join.memory": "128 mb",
        "table.exec.resource.sort.memory": "128 mb",
        "table.exec.sort.async-merge-enabled": "true",
        "table.exec.sort.max-num-file-handles": "128",
        "table.exec.spill-compression.block-size": "64 kb",
        "table.exec.spill-compression.enabled": "true",
        "table.exec.window-agg.buffer-size-limit": "100000",
    },
    _NO_CODE: {
        "table.exec.operator-fusion-codegen.enabled": "false",
        "table.generated-code.max-length": "4000",
        "table.generated-code.max-members": "10000",
    },
    _LOOKUPS: {
        "table.exec.async-lookup.buffer-capacity": "100",
        "table.exec.async-lookup.key-ordered-enabled": "true",
        "table.exec.async-lookup.output-mode": "ORDERED",
        "table.exec.async-lookup.timeout": "3 min",
    },
    _FUNCTIONS: {
        "table.exec.async-table.max-concurrent-operations": "10",
        "table.exec.async-table.max-retries": "3",
        "table.exec.async-table.retry-delay": "100 ms",
        "table.exec.async-table.retry-strategy": "FIXED_DELAY",
        "table.exec.async-table.timeout": "3 min",
        "table.optimizer.ptf.max-tables": "20",
    },
    _NO_MODELS: {
        "table.exec.async-ml-predict.max-concurrent-operations": "10",
        "table.exec.async-ml-predict.output-mode": "ORDERED",
        "table.exec.async-ml-predict.timeout": "3 min",
        "table.exec.async-vector-search.max-concurrent-operations": "10",
        "table.exec.async-vector-search.output-mode": "ORDERED",
        "table.exec.async-vector-search.timeout": "3 min",
    },
    _ALWAYS_COMPACT: {
        "table.exec.deduplicate.insert-update-after-sensitive-enabled": "true",
        "table.exec.deduplicate.mini-batch.compact-changes-enabled": "true",
    },
    _STATE: {
        "table.exec.async-state.enabled": "false",
        "table.exec.interval-join.min-cleanup-interval": "0 ms",
        "table.exec.rank.topn-cache-size": "10000",
        "table.exec.sink.upsert-materialize-strategy.adaptive.threshold.high": "400",
        "table.exec.sink.upsert-materialize-strategy.adaptive.threshold.low": "300",
        "table.exec.sink.upsert-materialize-strategy.type": "LEGACY",
        "table.exec.unbounded-over.version": "2",
    },
    _NOTHING_TOLD: {
        "table.optimizer.dynamic-filtering.enabled": "false",
        "table.optimizer.runtime-filter.enabled": "false",
        "table.optimizer.runtime-filter.max-build-data-size": "150 mb",
        "table.optimizer.runtime-filter.min-filter-ratio": "0.5",
        "table.optimizer.runtime-filter.min-probe-data-size": "10 gb",
        "table.optimizer.source.report-statistics-enabled": "false",
    },
    _FIXED_RULES: {
        "table.optimizer.bushy-join-reorder-threshold": "0",
        "table.optimizer.join-reorder-enabled": "false",
        "table.optimizer.sql2rel.project-merge.enabled": "true",
    },
    "what is equal in the plans of a job is computed once, the tables that they read among it, and each INSERT has a "
    "sink of its own": {
        "table.optimizer.reuse-optimize-block-with-digest-enabled": "true",
        "table.optimizer.reuse-sink-enabled": "false",
        "table.optimizer.reuse-source-enabled": "true",
        "table.optimizer.reuse-sub-plan-enabled": "true",
        "table.optimizer.union-all-as-breakpoint-enabled": "true",
    },
    "operators have short names, and a description": {"table.exec.simplify-operator-name-enabled": "true"},
    "the event times of rows go along with them, and are no column": {"table.exec.sink.rowtime-inserter": "ENABLED"},
    "a table that CREATE TABLE AS made is dropped again where its job cannot be started, and else stays": {
        "table.rtas-ctas.atomicity-enabled": "false"
    },
    "operators of compiled plans have uids, and others are told apart by what they do and read": {
        "table.exec.uid.format": "<id>_<transformation>",
        "table.exec.uid.generation": "PLAN_ONLY",
    },
    "nobody listens to changes of catalogs": {"table.catalog-modification.listeners": ""},
    "there are no jars here": {"table.resources.download-dir": ""},
}
"""Why options have no effect, and of each what is done here, which is its default."""

FIXED: dict[str, tuple[str, str]] = {
    "table.builtin-catalog-name": ("default_catalog", "the first catalog has that name; CREATE CATALOG makes others"),
    "table.builtin-database-name": (
        "default_database",
        "the first database has that name; CREATE DATABASE makes others",
    ),
    "table.column-expansion-strategy": ("", "* is all columns of a table"),
    "table.exec.legacy-cast-behaviour": ("DISABLED", "CAST fails where it cannot cast; TRY_CAST gives NULL"),
    "table.exec.sink.nested-constraint-enforcer": ("IGNORE", "NOT NULL and lengths within rows are not checked"),
    "table.exec.sort.default-limit": ("-1", "a query has as many rows as its LIMIT says"),
    "table.legacy-nested-row-nullability": ("false", "fields of rows are NOT NULL where their type says so"),
    "table.optimizer.non-deterministic-update.strategy": (
        "IGNORE",
        "nothing is kept to give functions that are not deterministic the same result again",
    ),
}
"""Options whose other values would change what a query gives: the value that is taken, and why there is no other."""


def _declare() -> None:
    for why, options in WITHOUT_EFFECT.items():
        for key, default in options.items():
            option(key, plain_text, default, f"Without effect: {why}.", no_effect=why)
    for key, (value, why) in FIXED.items():
        shown = value or "empty"
        fixed = Valid(lambda given, value=value: given.upper() == value.upper(), f"{shown}, since {why}")  # type: ignore[misc]
        option(key, plain_text, value, f"One value is taken: {why}.", valid=fixed)


_declare()
