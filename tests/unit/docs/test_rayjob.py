"""The manifest of the documentation is a RayJob as KubeRay takes it, and runs what `flinkray run` understands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import yaml

import flinkray
from actors.client.cli import run
from flinkray.config.options import declared_options
from flinkray.config.sources import variable_name

MANIFEST = Path(flinkray.__file__).parent.parent / "docs" / "operations" / "rayjob.yaml"

# Fields and types of KubeRay's ray.io/v1, as far as a manifest may need them; of pods, what is used here.
RESOURCES = {"limits": {"cpu": str, "memory": str}, "requests": {"cpu": str, "memory": str}}
CONTAINER = {"name": str, "image": str, "ports": [{"containerPort": int, "name": str}], "resources": RESOURCES}
TEMPLATE = {"spec": {"containers": [CONTAINER]}}
HEAD = {"rayStartParams": Mapping, "template": TEMPLATE, "serviceType": str, "enableIngress": bool}
REPLICAS = {"groupName": str, "replicas": int, "minReplicas": int, "maxReplicas": int, "numOfHosts": int}
WORKERS = {**REPLICAS, "rayStartParams": Mapping, "template": TEMPLATE}
CLUSTER = {"rayVersion": str, "enableInTreeAutoscaling": bool, "headGroupSpec": HEAD, "workerGroupSpecs": [WORKERS]}
JOB = {"entrypoint": str, "runtimeEnvYAML": str, "submissionMode": str, "jobId": str, "metadata": Mapping}
ENDS = {"shutdownAfterJobFinishes": bool, "ttlSecondsAfterFinished": int, "activeDeadlineSeconds": int}
RAY_JOB = {
    "apiVersion": str,
    "kind": str,
    "metadata": {"name": str, "namespace": str},
    "spec": {**JOB, **ENDS, "backoffLimit": int, "clusterSelector": Mapping, "rayClusterSpec": CLUSTER},
}


def check(value: Any, schema: Any, where: str) -> None:
    if isinstance(schema, dict):
        assert set(value) <= set(schema), f"{where} has fields that KubeRay does not know"
        for name, each in value.items():
            check(each, schema[name], f"{where}.{name}")
    elif isinstance(schema, list):
        for index, each in enumerate(value):
            check(each, schema[0], f"{where}[{index}]")
    else:
        assert isinstance(value, schema), f"{where} is no {schema.__name__}"
        if schema is Mapping:
            assert all(isinstance(each, str) for each in value.values()), f"{where} holds text only"


def test_the_manifest_is_a_rayjob_whose_entrypoint_can_be_run() -> None:
    manifest = yaml.safe_load(MANIFEST.read_text())
    check(manifest, RAY_JOB, "RayJob")
    assert (manifest["apiVersion"], manifest["kind"]) == ("ray.io/v1", "RayJob")
    spec = manifest["spec"]
    assert re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", manifest["metadata"]["name"])
    assert spec["submissionMode"] in ("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode")
    variables = yaml.safe_load(spec["runtimeEnvYAML"])["env_vars"]
    assert set(variables) <= {variable_name(key) for key in declared_options()}
    command, subcommand, *arguments = shlex.split(spec["entrypoint"])
    parsed = click.Context(run)
    run.parse_args(parsed, arguments)
    assert (command, subcommand, parsed.params["program"]) == ("flinkray", "run", ("/app/clicks.py",))
    settings = (setting.partition("=")[0] for setting in parsed.params["settings"])
    assert set(settings) <= set(declared_options())
