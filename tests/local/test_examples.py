"""The short examples, run in this process and held against independent computations of the same answers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from examples import fraud_detection, model_scoring, word_count
from tests.support.jobs import environment

EXAMPLES = Path(word_count.__file__).parent


def test_word_count_ends_at_the_number_of_each_word() -> None:
    lines = word_count.HAMLET.splitlines()
    updates = list(word_count.count(environment().from_collection(lines)).execute_and_collect())
    expected = Counter(re.findall(r"[a-z][a-z'-]*[a-z]|[a-z]", word_count.HAMLET.lower()))
    # A word's count grows by one with each update, so there are as many updates as words.
    assert sorted(updates) == sorted((word, n + 1) for word, number in expected.items() for n in range(number))
    assert word_count.top(dict(updates), 3) == [("to", 13), ("the", 6), ("and", 4)]


def test_fraud_detection_finds_what_a_look_at_each_card_finds() -> None:
    cards, minutes = 60, 600
    found = fraud_detection.alerts(environment(), cards, minutes).to_pandas()
    batches = [
        fraud_detection.payments(fraud_detection.Cards(group, minute), cards).to_pandas()
        for group in range(fraud_detection.GROUPS)
        for minute in range(minutes)
    ]
    paid = pd.concat(batches).sort_values(["card", "time"], kind="stable")
    before = paid.groupby("card").shift(1)
    expected = paid[(paid.amount > 500) & (before.amount < 1) & (paid.time - before.time <= 60_000)]
    assert len(expected) > 3
    order = ["card", "time"]
    assert found.sort_values(order).values.tolist() == expected.sort_values(order).values.tolist()


def test_model_scoring_gives_the_days_that_pandas_gives() -> None:
    days = model_scoring.daily_forecasts(environment()).to_pandas()
    model = json.loads((model_scoring.DATA / "late_model.json").read_text())
    flights = pd.read_parquet(model_scoring.DATA / "flights.parquet").dropna(subset="dep_delay")
    hour, distance, busy = model["weights"].values()
    logit = (
        model["intercept"]
        + hour * flights.hour / 24
        + distance * flights.distance / 1000
        + busy * flights.month.isin([6, 7, 12])
    )
    flights["probability"] = 1 / (1 + np.exp(-logit))
    flights["late"] = flights.dep_delay > 15
    flights["window_start"] = flights.time_hour.astype("datetime64[ms, UTC]").astype("int64") // 86_400_000 * 86_400_000
    expected = flights.groupby(["origin", "window_start"]).agg(
        flights=("late", "size"), expected_late=("probability", "mean"), were_late=("late", "mean")
    )
    assert days.window_end.sub(days.window_start).unique().tolist() == [86_400_000]
    got = days.drop(columns="window_end").set_index(["origin", "window_start"]).sort_index()
    pd.testing.assert_frame_equal(got, expected.sort_index(), rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["word_count.py"], r" +13 to"),
        (["fraud_detection.py", "--hours", "1"], r"\d\d:\d\d:\d\d  card +\d+ +\d+\.\d\d"),
        (["model_scoring.py"], r" +LGA 2013-03-08 +233 +0\.193402 +0\.729614"),
    ],
)
def test_an_example_runs_as_a_program(arguments: list[str], line: str) -> None:
    name, *options = arguments
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), "--target", "local", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert any(re.fullmatch(line, printed) for printed in done.stdout.splitlines()), done.stdout
