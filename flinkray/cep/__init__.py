"""Pattern matching on streams, in the terms of Flink's CEP library: `CEP.pattern(stream, pattern).select(function)`.

`pattern_stream.py` has what a program calls; patterns themselves are in `flinkray.patterns`.
"""

from __future__ import annotations

from flinkray.cep.pattern_stream import CEP, PatternStream
from flinkray.patterns.functions import (
    Events,
    IterativeConditionContext,
    PatternContext,
    PatternProcessFunction,
    TimedOutPartialMatchHandler,
)
from flinkray.patterns.pattern import Pattern, WithinType
from flinkray.patterns.skipping import AfterMatchSkipStrategy

__all__ = [
    "CEP",
    "AfterMatchSkipStrategy",
    "Events",
    "IterativeConditionContext",
    "Pattern",
    "PatternContext",
    "PatternProcessFunction",
    "PatternStream",
    "TimedOutPartialMatchHandler",
    "WithinType",
]
