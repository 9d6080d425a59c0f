"""The table of routes as OpenAPI 3.1."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from flinkray.rest.cluster import ErrorBody
from flinkray.rest.routes import ROUTES, TEXT, Route

_TEXT = {"type": "string"}
_ID = {"type": "string", "pattern": "^[0-9a-fA-F]{32}$"}
_NUMBER = {"type": "integer", "minimum": 0}
_SCHEMAS = {
    **dict.fromkeys(("jobid", "applicationid", "vertexid", "triggerid"), _ID),
    **dict.fromkeys(("subtaskindex", "attempt", "checkpointid"), _NUMBER),
}
"""What varies in paths, where it is not any text."""

_REFERENCE = "#/components/schemas/{name}"


@cache
def openapi(version: str) -> Mapping[str, Any]:
    """The description of everything that is served.

    Args:
        version: of flinkray.
    """
    types: list[Any] = [ErrorBody]
    for route in ROUTES:
        types += [each for each in (route.answer, route.body) if each is not None and each is not TEXT]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    known = {repr(each): schema for each, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        path = re.sub(r":(\w+)", r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, known)
    return {
        "openapi": "3.1.0",
        "info": {"title": "flinkray", "version": version, "description": "Flink's REST interface over flinkray."},
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(route: Route, schemas: Mapping[str, Any]) -> dict[str, Any]:
    content = {"text/plain": {"schema": {"type": "string"}}}
    if route.answer is not TEXT:
        content = {"application/json": {"schema": schemas[repr(route.answer)]}}
    error = {"application/json": {"schema": schemas[repr(ErrorBody)]}}
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{route.handler}" if route.is_write else route.handler,
        "summary": route.doc,
        "parameters": [
            *(_parameter(name, "path") for name in route.parameters),
            *(_parameter(name, "query") for name in route.query),
        ],
        "responses": {
            str(route.status): {"description": route.doc, "content": content},
            "default": {"description": "Why not.", "content": error},
        },
    }
    if route.is_upload:
        form = {"type": "object", "properties": {"jarfile": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"content": {"multipart/form-data": {"schema": form}}, "required": True}
    if route.body is not None:
        body = {"application/json": {"schema": schemas[repr(route.body)]}}
        operation["requestBody"] = {"content": body, "required": False}
    return operation


def _parameter(name: str, where: str) -> dict[str, Any]:
    schema = _SCHEMAS.get(name, _TEXT) if where == "path" else _TEXT
    return {"name": name, "in": where, "required": where == "path", "schema": schema}
