"""The digest of everything that a render depends on, known without rendering."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from fleet.errors import Invalid
from fleet.source import HelmRelease, Renderer
from gitcache.domain import parameters as given

FORMAT = 2
"""Raised whenever the same inputs may give other objects than before."""

_MAX_PARAMETERS = 1 << 20


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a render reads besides parameters.

    `trees` maps each folder or file (relative to the service's folder) to its git id, so a folder
    that is moved with equal content and no outside references keeps its digest. `root` is the
    folder that the renderer starts at, relative too. `charts` maps places to digests of fetched
    archives, `mounts` places to the git ids of folders that are put there. `submodules` tells
    whether their files are the folder's too. `keys` names those that open encrypted files.
    Renders are shared within a `project`: no tenant meets what another one has had rendered, not
    even by a git id that two contents were made to have.
    """

    renderer: Renderer
    trees: Mapping[str, str]
    tool: str | None = None
    root: str | None = None
    templated: bool = False
    helm: HelmRelease | None = None
    charts: Mapping[str, str] | None = None
    mounts: Sequence[tuple[str, str]] = ()
    submodules: bool = False
    keys: Sequence[str] = ()
    project: str | None = None

    def digest(self) -> str:
        """`sha256:<hex>` over the canonical JSON of these inputs."""
        return digest_of_json(
            {
                "format": FORMAT,
                "renderer": self.renderer.value,
                "trees": dict(self.trees),
                "tool": self.tool,
                "root": self.root,
                "templated": self.templated,
                "helm": asdict(self.helm) if self.helm else None,
                "charts": dict(self.charts or {}),
                "mounts": [list(mount) for mount in self.mounts],
                "submodules": self.submodules,
                **({"keys": list(self.keys)} if self.keys else {}),
                **({"project": self.project} if self.project else {}),
            }
        )


def source_of(static: str, reads: Iterable[given.Path], parameters: Mapping[str, Any]) -> str:
    """The digest of all inputs: the static ones, and the parameters that were read.

    Invalid: parameters that are no JSON, or too large.
    """
    return digest_of_json({"static": static, "parameters": given.picked(parameters, reads)})


def digest_of_json(value: Any) -> str:
    """`sha256:<hex>` of a value's JSON with sorted keys. Invalid: no JSON, or too large."""
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, RecursionError) as error:
        raise Invalid("parameters must be JSON values", field="parameters") from error
    if len(data) > _MAX_PARAMETERS:
        raise Invalid(f"more than {_MAX_PARAMETERS:,} bytes", field="parameters")
    return "sha256:" + hashlib.sha256(data).hexdigest()
