"""The digest of everything that a render depends on, known without rendering."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from fleet.errors import Invalid
from fleet.source import Renderer

FORMAT = 1
"""Raised whenever the same inputs may give other objects than before."""

_MAX_PARAMETERS = 1 << 20


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a render reads: `trees` maps each folder (relative to the root) to its tree id.

    `folder` is part of the inputs only as far as `trees` is relative to it, so a folder that is
    moved with equal content and no outside references keeps its digest.
    """

    renderer: Renderer
    trees: Mapping[str, str]
    tool: str | None = None
    kustomize_path: str | None = None
    parameters: Mapping[str, Any] | None = field(default=None)

    def digest(self) -> str:
        """`sha256:<hex>` over the canonical JSON of all inputs. Invalid: odd parameters."""
        return digest_of_json(
            {
                "format": FORMAT,
                "renderer": self.renderer.value,
                "trees": dict(self.trees),
                "tool": self.tool,
                "kustomizePath": self.kustomize_path,
                "parameters": None if self.parameters is None else dict(self.parameters),
            }
        )


def digest_of_json(value: Any) -> str:
    """`sha256:<hex>` of a value's JSON with sorted keys. Invalid: no JSON, or too large."""
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, RecursionError) as error:
        raise Invalid("parameters must be JSON values", field="parameters") from error
    if len(data) > _MAX_PARAMETERS:
        raise Invalid(f"more than {_MAX_PARAMETERS:,} bytes", field="parameters")
    return "sha256:" + hashlib.sha256(data).hexdigest()
