"""Renderers that the control plane names, and the settings of renderers."""

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

from core.json_object import JsonMapping, JsonObject

AUTO: Final = "auto"
"""Detects the renderer from the files of a folder."""
KUSTOMIZE: Final = "kustomize"
HELM: Final = "helm"
MAX_RENDERED_FILES: Final = 1000
"""Maximum number of files that a bundle names as the origin of its objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HelmSettings:
    """Helm settings of a service.

    Without `url`, the chart is the folder `chart` relative to the service's folder. With `url` (a
    chart repository or `oci://…`), `chart` is the chart's name.
    """

    values: str | None = None
    """Values (YAML). They win over `valuesFiles`."""
    values_files: tuple[str, ...] = ()
    """Values files, relative to the folder of the service. Later files win."""
    chart: str | None = None
    """Name of the chart. Default: the folder of the service is the chart."""
    version: str | None = None
    """Version or npm version range. Default: the newest version."""
    url: str | None = None
    """URL of the chart repository, or `oci://…`."""
    release: str | None = None
    """Release name. Default: the name of the service."""
    ignore_hooks: bool = False
    """True skips Helm hooks. Default: false."""
    ignore_crds: bool = False
    """True skips the folder `crds`. Default: false."""


@dataclass(frozen=True, slots=True)
class HelmRelease(HelmSettings):
    """Helm settings of a render, with the names that every render has."""

    release: str
    namespace: str


@dataclass(frozen=True, slots=True)
class RenderValue:
    """A value that users pass to Jsonnet."""

    name: str
    """Name of the variable or argument."""
    value: str
    """Text, or code with `code`."""
    code: bool = False
    """True evaluates the value as Jsonnet code. Default: false."""


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """Files and values of a render. Patterns contain `*`, `?` and `**`; one without `/` matches
    names of files at any depth."""

    recurse: bool = True
    """False reads plain manifests only directly in the folder. Default: true."""
    include: tuple[str, ...] = ()
    """Patterns of the plain manifests to read. Default: all. Limit: 64."""
    exclude: tuple[str, ...] = ()
    """Patterns of files that are no manifests. They take precedence over `include`. Limit: 64."""
    allow_empty: bool = False
    """True accepts a render without objects, which removes all objects. Default: false."""
    entry: str | None = None
    """Entry file of Jsonnet, relative to the folder. Default: `main.jsonnet`."""
    libraries: tuple[str, ...] = ()
    """Library folders of Jsonnet, relative to the folder; later ones win. The folders `vendor` and
    `lib` beside a `jsonnetfile.json` follow. Limit: 64."""
    variables: tuple[RenderValue, ...] = ()
    """External variables of Jsonnet. They win over parameters. Limit: 100."""
    arguments: tuple[RenderValue, ...] = ()
    """Top-level arguments of Jsonnet. They win over parameters. Limit: 100."""

    def to_json(self) -> JsonMapping:
        """Returns the JSON form, which callers must not change."""
        return _options_json(self)

    @classmethod
    def from_json(cls, fields: JsonMapping) -> "RenderOptions":
        """Reads the JSON form."""
        read: JsonObject = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in fields.items()
        }
        for name in ("variables", "arguments"):
            read[name] = tuple(RenderValue(**value) for value in read[name])
        return cls(**read)


@lru_cache(256)
def _options_json(options: RenderOptions) -> JsonMapping:
    """Most services have the same options, and each render needs their form."""
    return asdict(options)


def chart_ref(chart: str, version: str) -> str:
    """Makes the ref of a chart and a version, a range, or empty for the newest."""
    return f"{chart}/{quote(version or '*', safe='').replace('~', '%7E')}"


def chart_of_ref(ref: str) -> tuple[str, str] | None:
    """Returns chart and version of a ref, None if it is not a chart ref."""
    chart, _, version = ref.rpartition("/")
    return (chart, unquote(version)) if chart and version else None
