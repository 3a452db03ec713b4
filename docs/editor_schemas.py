"""JSON Schemas of manifests for editors and validators, as the site publishes them.

The files of single kinds are those of the Terraform provider, which `make schema` generates and
`make lint` compares with the model.
"""

import json
from pathlib import Path

from core.json_object import JsonObject

SOURCES = Path(__file__).parents[1] / "terraform" / "internal" / "manifest" / "schemas"
_GROUP, _VERSION = "towline.io", "v1"
ALL = f"{_GROUP}/manifest_{_VERSION}.json"
"""Schema of a document of any kind."""


def editor_schemas() -> dict[str, str]:
    """Returns the text of each schema by its path below `schemas/`.

    The paths have the form of the catalog of CRDs, which kubeconform fills in as a template.
    """
    kinds = {path.stem: path.read_text() for path in sorted(SOURCES.glob("*.json"))}
    single = {f"{_GROUP}/{_file(kind)}": text for kind, text in kinds.items()}
    return {ALL: json.dumps(_any_of(list(kinds)), indent=2) + "\n", **single}


def _file(kind: str) -> str:
    return f"{kind.lower()}_{_VERSION}.json"


def _any_of(kinds: list[str]) -> JsonObject:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Manifest of Towline",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata"],
        "properties": {"kind": {"enum": kinds}},
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
                "then": {"$ref": _file(kind)},
            }
            for kind in kinds
        ],
    }
