"""The options with which a program brings along what its functions need, by Flink's keys where Flink has them."""

from __future__ import annotations

from flinkray.config.option import option
from flinkray.config.parsers import json_object as _json_object
from flinkray.config.parsers import text as _str

PYTHON_FILES = option(
    "python.files",
    _str,
    "",
    "What goes along with a job, so that its processes can import it: modules, packages, directories of these, .zip, "
    ".whl and .egg files of the machine that submits it, with commas between them.",
)
PYTHON_ARCHIVES = option(
    "python.archives",
    _str,
    "",
    "Archives (.zip, .jar, .tar, .tar.gz, .tgz) that go along with a job, with commas between them. `models.zip#here` "
    "is unpacked into a directory `here`, one without such a name into one of the file's name: `get_cached_file` gives "
    "its path, and on Ray it is in the working directory of functions.",
)
PYTHON_REQUIREMENTS = option(
    "python.requirements",
    _str,
    "",
    "A requirements file, whose packages Ray installs by pip for the processes of the job; on the target `local` they "
    "have to be installed.",
)
RUNTIME_ENV = option(
    "python.runtime-env",
    _json_object,
    "",
    "Ray's runtime environment of the processes that run a job's functions, as JSON: `env_vars`, `pip`, `uv`, `conda`, "
    "and `working_dir` and `py_modules` as URIs. It adds to the one that the driver or the session was started with.",
)
