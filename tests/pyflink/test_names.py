"""Every public name of PyFlink's DataStream and Table API is here with its arguments, or the page on PyFlink says that
it is not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from actors.operators.functions.process import UserTimerService
from actors.operators.windows.user_functions.contexts import FiringContext, WindowTriggerContext
from actors.state.hashmap.states import (
    HashMapAggregatingState,
    HashMapListState,
    HashMapMapState,
    HashMapReducingState,
    HashMapValueState,
)
from actors.state.keyed.backend import AbstractKeyedStateBackend
from actors.state.operator_state import HeapBroadcastState, OperatorListState, OperatorStateBackend
from actors.state.rocksdb.states import (
    RocksDbAggregatingState,
    RocksDbListState,
    RocksDbMapState,
    RocksDbReducingState,
    RocksDbValueState,
)
from actors.user_code.functions import TaskRuntimeContext
from actors.user_code.metrics import UserCounter, UserDistribution, UserMeter, UserMetricGroup
from tests.support.pyflink import VERSION
from tests.support.pyflink_names import NAMES, difference, difference_of_method, names_in_wheel

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "coming-from-pyflink.md"
LINES = NAMES.read_text(encoding="utf-8").splitlines()

EXPLAINED = {
    r"\bj_\w+": "`j_`",
    r"get_java_\w+|to_j_row_kind": "`get_java_...()`",
    r"TypeInfo\w*\.(to_internal_type|from_internal_type|need_conversion|EPOCH_ORDINAL|__init__)": "`need_conversion`",
    r"\.get_window_serializer": "`get_window_serializer`",
    r"register_next_fire_timestamp|AccumulateType|FileSink\.(BaseBuilder|get_transformer)": "`AccumulateType`",
    r"(Stream|Streams)\.__init__": "constructors of streams",
    r"StateTtlConfig(\.CleanupStrategies)?\.__init__|Strategy\b|EMPTY_STRATEGY|\.Strategies\b": (
        "`StateTtlConfig.new_builder`"
    ),
    r"AggregateFunction\.merge": "`merge`",
    r"Instant\.to_epoch_milli": "`Instant.to_epoch_milli(value)`",
    r"JobStatus\.(RECONCILING|SUSPENDED)": "`JobStatus.SUSPENDED`",
    r"json_schema": "`json_schema(...)`",
    r"connectors\.kafka: KafkaSink\.get_transformer": "`AccumulateType`",
    r"table\.types: (?!DataTypes)": "classes of types",
    r"table\.(model_descriptor|module|descriptors|resolved_expression)": "`model_descriptor`",
    r"smile_bytes|BytesContentPlanReference": "`as_smile_bytes`",
    r": (AsyncFunctionDescriptor|InputFormat|AssignerWith\w+|ResolvedExpression|Module(Entry)?|ModelDescriptor)$": (
        "classes such as `InternalWindowFunction`"
    ),
    r"table\.udf: (Delegat|UserDefined\w+Wrapper|PandasAgg)|Function\.eval": "`eval` of the base classes",
    r"table\.window: (\w+With|OverWindowPartitioned)": "classes between the steps of a window",
    r"table\.catalog: (ResolvedSchema\.|ObjectPath\.compare_to)": "`get_columns`",
    r"bitmap_|inet_|printf|object_of|object_update|as_argument|descriptor\b": "`bitmap_...`",
    r"(from|to)_changelog\(\*arguments\)": "`Table.to_changelog`",
    r"table\.\w+: [\w.]+\.__init__": "constructors of tables",
}
"""What of the list may differ, and the words of the page that say so."""


@pytest.mark.parametrize("module", sorted({line.partition(":")[0] for line in LINES}))
def test_nothing_is_missing_that_the_page_does_not_name(module: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    found = []
    for line in LINES:
        if line.partition(":")[0] == module and (what := difference(line)) is not None:
            words = [words for pattern, words in EXPLAINED.items() if re.search(pattern, line)]
            if not any(each in page for each in words):
                found.append(f"{line}: {what}")
    assert found == []


def test_everything_that_may_differ_does() -> None:
    """Whoever adds a name takes it off the list, and off the page."""
    differing = [line for line in LINES if difference(line) is not None]
    assert [pattern for pattern in EXPLAINED if not any(re.search(pattern, line) for line in differing)] == []


IMPLEMENTED = {
    "datastream.functions: RuntimeContext": [TaskRuntimeContext],
    "datastream.functions: KeyedStateStore": [TaskRuntimeContext, AbstractKeyedStateBackend],
    "datastream.state: OperatorStateStore": [OperatorStateBackend],
    "datastream.timerservice: TimerService": [UserTimerService],
    "datastream.state: ValueState": [HashMapValueState, RocksDbValueState],
    "datastream.state: ListState": [HashMapListState, RocksDbListState, OperatorListState],
    "datastream.state: MapState": [HashMapMapState, RocksDbMapState],
    "datastream.state: BroadcastState": [HeapBroadcastState],
    "datastream.state: AppendingState": [
        HashMapReducingState,
        RocksDbReducingState,
        HashMapAggregatingState,
        RocksDbAggregatingState,
    ],
    "datastream.window: Trigger.TriggerContext": [WindowTriggerContext],
    "datastream.functions: ProcessWindowFunction.Context": [FiringContext],
    "metrics.metricbase: Counter": [UserCounter],
    "metrics.metricbase: Meter": [UserMeter],
    "metrics.metricbase: Distribution": [UserDistribution],
    "metrics.metricbase: MetricGroup": [UserMetricGroup],
}
"""The classes whose objects functions get, by PyFlink's name for them."""


@pytest.mark.parametrize("name", IMPLEMENTED)
def test_what_functions_get_takes_pyflinks_arguments_too(name: str) -> None:
    methods = [line.removeprefix(f"{name}.") for line in LINES if line.startswith(f"{name}.") and "(" in line]
    found = [
        f"{implementing.__name__}.{method}: {what}"
        for implementing in IMPLEMENTED[name]
        for method in methods
        if (what := difference_of_method(implementing, method)) is not None
    ]
    assert found == []
    assert methods


@pytest.mark.pyflink
def test_the_list_is_that_of_pyflinks_wheel(tmp_path: Path) -> None:
    wanted = f"apache-flink=={VERSION}"
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", wanted, "--dest", str(tmp_path)]
    fetched = subprocess.run(
        [*download, "--only-binary=:all:", "--python-version", "3.11"], capture_output=True, text=True, timeout=100
    )
    if fetched.returncode:
        pytest.skip(f"{wanted} cannot be downloaded: {fetched.stderr.strip()[-300:]}")
    (wheel,) = tmp_path.glob("*.whl")
    assert names_in_wheel(wheel) == LINES
