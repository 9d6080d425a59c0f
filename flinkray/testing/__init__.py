"""Help for testing programs: harnesses for functions and transformations, sources with faults, whole local runs.

Open `harness.py` first. The runtime behind a harness is `actors.testing`, found as a plug-in. Imports
`flinkray.streams` and rooms below it.
"""

from flinkray.testing.clock import ManualClock
from flinkray.testing.elements import Active, Crash, Idle, Watermark
from flinkray.testing.harness import (
    Harness,
    HarnessSettings,
    Input,
    KeyedHarness,
    KeyedTwoInputHarness,
    OneInputHarness,
    TwoInputHarness,
)
from flinkray.testing.running import run_locally
from flinkray.testing.scripted_source import ScriptedCrash, ScriptedSource
from flinkray.testing.simulation import SimulatedFaults, Simulation

__all__ = [
    "Active",
    "Crash",
    "Harness",
    "HarnessSettings",
    "Idle",
    "Input",
    "KeyedHarness",
    "KeyedTwoInputHarness",
    "ManualClock",
    "OneInputHarness",
    "ScriptedCrash",
    "ScriptedSource",
    "SimulatedFaults",
    "Simulation",
    "TwoInputHarness",
    "Watermark",
    "run_locally",
]
