"""Where the modules of a program are, for processes that were not started by it (those of a session cluster, say)."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from pathlib import Path

from flinkray.config.configuration import Configuration
from flinkray.config.options import PYTHON_PATH


def own_places() -> str:
    """The places that this process looks for modules in, without those of Python itself and of installed packages."""
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    installed += [Path(place).resolve() for place in (*site.getsitepackages(), site.getusersitepackages())]
    places = dict.fromkeys(Path(place).resolve() for place in sys.path)
    own = [place for place in places if place.exists() and not any(map(place.is_relative_to, installed))]
    return os.pathsep.join(map(str, own))


def add_places(configuration: Configuration) -> None:
    """Makes this process find a job's modules too; its own come first."""
    for place in filter(None, configuration.get(PYTHON_PATH).split(os.pathsep)):
        if place not in sys.path:
            sys.path.append(place)
