"""Renderers that the control plane names, and the settings of Helm."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

AUTO: Final = "auto"
"""Detects the renderer from the files of a folder."""
KUSTOMIZE: Final = "kustomize"
HELM: Final = "helm"


@dataclass(frozen=True, slots=True)
class HelmRelease:
    """Helm settings of a render.

    Without `url`, the chart is the folder `chart` relative to the service's folder (default:
    that folder). With `url` (a chart repository or `oci://…`), `chart` is the chart's name and
    `version` a version, a range, or None for the newest. `values_files` are relative to the
    service's folder; later files win, and `values` (YAML) wins over all files.
    """

    release: str
    namespace: str
    chart: str | None = None
    version: str | None = None
    url: str | None = None
    values: str | None = None
    values_files: tuple[str, ...] = ()
    ignore_hooks: bool = False
    ignore_crds: bool = False


def chart_ref(chart: str, version: str) -> str:
    """Makes the ref of a chart and a version, a range, or empty for the newest."""
    return f"{chart}/{quote(version or '*', safe='').replace('~', '%7E')}"


def chart_of_ref(ref: str) -> tuple[str, str] | None:
    """Returns chart and version of a ref, None if it is not a chart ref."""
    chart, _, version = ref.rpartition("/")
    return (chart, unquote(version)) if chart and version else None
