"""Where a program's modules are, for processes that it did not start, such as those of a session cluster."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from pathlib import Path

from flinkray.config.configuration import Configuration
from flinkray.config.options import PYTHON_PATH

WAYS_TO_BRING_MODULES = (
    "each module that it imports must be on every node: send it along with `flinkray run --py-files`, "
    "env.add_python_file or the option python.files, submit the program with `ray job submit --working-dir .`, or "
    "install it on each node"
)
"""What an error says where a program's code cannot be loaded in another process."""


def own_directories() -> str:
    """The directories in which this process looks for modules, without those of Python itself and of installed
    packages."""
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    installed += [Path(directory).resolve() for directory in (*site.getsitepackages(), site.getusersitepackages())]
    directories = dict.fromkeys(Path(directory).resolve() for directory in sys.path)
    own = [
        directory
        for directory in directories
        if directory.exists() and not any(map(directory.is_relative_to, installed))
    ]
    return os.pathsep.join(map(str, own))


def add_directories(configuration: Configuration) -> None:
    """Makes this process find a job's modules too, after its own."""
    for directory in filter(None, configuration.get(PYTHON_PATH).split(os.pathsep)):
        if directory not in sys.path:
            sys.path.append(directory)
