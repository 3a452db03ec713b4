"""JSON Schemas of the kinds of manifests, for clients that are built without a control plane.

`python -m controlplane.manifest_schemas FOLDER` writes one file for each kind.
"""

import sys
from pathlib import Path
from typing import TypeVar

import orjson

from controlplane.kinds import all_kinds
from controlplane.manifests.model.codec import SpecCodec
from controlplane.manifests.model.schemas import json_schema
from controlplane.platform.operations import Operations
from core.json_object import JsonObject

P = TypeVar("P")


class _NoOperations(Operations):
    """Operations of kinds that only describe themselves."""

    def __getitem__(self, kind: type[P]) -> P:
        return kind.__new__(kind)


def manifest_schemas() -> dict[str, JsonObject]:
    """Returns the schema of each kind by its name."""
    kinds = all_kinds(_NoOperations())
    return {kind.name: json_schema(kind, SpecCodec(type(kind))) for kind in kinds}


def write_schemas(folder: Path) -> None:
    """Writes the schemas, and removes those of kinds that no longer exist."""
    folder.mkdir(parents=True, exist_ok=True)
    schemas = manifest_schemas()
    for path in folder.glob("*.json"):
        if path.stem not in schemas:
            path.unlink()
    for name, schema in schemas.items():
        text = orjson.dumps(schema, option=orjson.OPT_INDENT_2)
        (folder / f"{name}.json").write_bytes(text + b"\n")


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
