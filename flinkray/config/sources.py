"""Where settings come from beside code: `FLINKRAY_<KEY>` environment variables, above a YAML file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from flinkray.config.configuration import Configuration
from flinkray.config.options import declared_options
from flinkray.errors import ConfigurationError, did_you_mean

CONFIGURATION_DIRECTORY = "FLINKRAY_CONF_DIR"
"""Environment variable that names the directory of the configuration file."""
CONFIGURATION_FILE = "config.yaml"
_PREFIX = "FLINKRAY_"


def load_configuration(environ: Mapping[str, str] = os.environ) -> Configuration:
    """What the environment variables say, and below it the file `$FLINKRAY_CONF_DIR/config.yaml`.

    Raises:
        ConfigurationError: an unknown key, a bad value, or a file that cannot be read; names variable or file.
    """
    return _from_variables(environ).with_fallback(_from_file(environ))


def variable_name(key: str) -> str:
    """The environment variable of an option: `FLINKRAY_PARALLELISM_DEFAULT` for `parallelism.default`."""
    return _PREFIX + key.replace(".", "_").replace("-", "_").upper()


def _from_variables(environ: Mapping[str, str]) -> Configuration:
    variables = {variable_name(key): key for key in declared_options()}
    configuration = Configuration()
    for variable, value in environ.items():
        if variable in variables:
            _set(configuration, variables[variable], value, f"environment variable {variable}")
        elif variable.startswith(_PREFIX) and variable != CONFIGURATION_DIRECTORY:
            # Not every such variable is an option, but one that nearly is one would be missed in silence.
            nearest = did_you_mean(variable, variables)
            if nearest:
                raise ConfigurationError(f"environment variable {variable} is no option{nearest}")
    return configuration


def _from_file(environ: Mapping[str, str]) -> Configuration:
    directory = environ.get(CONFIGURATION_DIRECTORY)
    configuration = Configuration()
    if not directory:
        return configuration
    path = Path(directory) / CONFIGURATION_FILE
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigurationError(f"cannot read {path}, which {CONFIGURATION_DIRECTORY} asks for: {error}") from error
    if content is not None and not isinstance(content, dict):
        raise ConfigurationError(f"{path} must hold keys and values, not a {type(content).__name__}")
    for key, value in _flat(content or {}, ""):
        _set(configuration, key, value, str(path))
    return configuration


def _flat(values: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Dotted keys of nested mappings, down to options, whose value may be a mapping."""
    for key, value in values.items():
        if isinstance(value, dict) and f"{prefix}{key}" not in declared_options():
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _set(configuration: Configuration, key: str, value: object, origin: str) -> None:
    try:
        configuration.set(key, value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{origin}: {error}") from error
