"""Resources that operators bring into a cluster, as far as our charts use them."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.charts.rendering import Json

jsonschema = pytest.importorskip("jsonschema", reason="`make charts` installs it")

DEFINITIONS = Path(__file__).with_name("resources.yaml")


@cache
def definitions() -> tuple[Json, ...]:
    """CustomResourceDefinitions with the fields that we use, as an API server takes them."""
    return tuple(yaml.safe_load_all(DEFINITIONS.read_text()))


def is_foreign(one: Json) -> bool:
    """Whether an object is of such a kind."""
    return _schema(one) is not None


def complaints(one: Json) -> list[str]:
    """Errors of such an object, including fields that the kind does not have."""
    validator = jsonschema.Draft202012Validator(_closed(_schema(one)))
    return [error.message for error in validator.iter_errors(one["spec"])]


def _schema(one: Json) -> Json | None:
    group, _, version = one["apiVersion"].rpartition("/")
    for kind in definitions():
        spec = kind["spec"]
        if (spec["group"], spec["names"]["kind"]) == (group, one["kind"]):
            served = {v["name"]: v["schema"]["openAPIV3Schema"] for v in spec["versions"]}
            return served[version]["properties"]["spec"]
    return None


def _closed(schema: Any) -> Any:
    """The same, with fields refused that it does not name."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(one) for name, one in schema.items()}
    return closed | {"additionalProperties": False} if "properties" in schema else closed
