"""The digest of all inputs of a render, computed before rendering."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from core.errors import Invalid
from core.identity import DEFAULT_PROJECT
from core.json_object import JsonMapping
from core.spec.renderers import RenderOptions
from gitcache.domain import parameters as parameter_sets

FORMAT = 5
"""Increase this whenever the same inputs may give other objects than before."""

_MAX_PARAMETERS = 1 << 20


@dataclass(frozen=True, slots=True)
class Inputs:
    """All inputs of a render except parameters.

    `trees` maps each folder or file (relative to the service's folder) to its git id. A moved
    folder with the same content and no outside references keeps its digest. `root` is the
    folder where the renderer starts, also relative. `settings` are the renderer's own.
    `charts` maps paths to digests of fetched archives, `mounts` maps paths to git ids of mounted
    folders. `submodules` includes the files of submodules. `keys` names the decryption keys.
    Renders are shared only within a `project`: no tenant gets another tenant's render, not even
    after a collision of git ids.
    """

    renderer: str
    trees: Mapping[str, str]
    tool: str = ""
    root: str | None = None
    templated: bool = False
    settings: JsonMapping = field(default_factory=dict)
    charts: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[tuple[str, str]] = ()
    submodules: bool = False
    keys: Sequence[str] = ()
    project: str = DEFAULT_PROJECT
    options: RenderOptions = RenderOptions()

    def digest(self) -> str:
        """Hashes the canonical JSON of these inputs as `sha256:<hex>`."""
        return digest_of_json(
            {
                "format": FORMAT,
                "renderer": self.renderer,
                "trees": dict(self.trees),
                "tool": self.tool,
                "root": self.root,
                "templated": self.templated,
                "settings": dict(self.settings),
                "project": self.project,
                "charts": dict(self.charts),
                "mounts": [list(mount) for mount in self.mounts],
                "submodules": self.submodules,
                "options": self.options.to_json(),
                **({"keys": list(self.keys)} if self.keys else {}),
            }
        )


def input_digest(
    static: str, reads: Iterable[parameter_sets.Path], parameters: Mapping[str, object]
) -> str:
    """Digest of all inputs: the static ones, and the parameters that were read.

    Raises Invalid for parameters that are not JSON or too large.
    """
    return digest_of_json(
        {"static": static, "parameters": parameter_sets.read_values(parameters, reads)}
    )


def digest_of_json(value: object) -> str:
    """Hashes a value's JSON with sorted keys. Raises Invalid if it is not JSON or too large."""
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, RecursionError) as error:
        raise Invalid("parameters must be JSON values", field="parameters") from error
    if len(data) > _MAX_PARAMETERS:
        raise Invalid(f"more than {_MAX_PARAMETERS:,} bytes", field="parameters")
    return "sha256:" + hashlib.sha256(data).hexdigest()
