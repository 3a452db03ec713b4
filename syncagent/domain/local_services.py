"""Services that this cluster defines itself."""

from dataclasses import dataclass

from core.spec.renderers import HelmRelease
from core.spec.sync import SyncOptions


@dataclass(frozen=True, slots=True)
class ServiceDefinition:
    """A service that this cluster defines; without a `repository`, the folder is local.
    With `helm` it is a chart, otherwise plain manifests.
    """

    name: str
    namespace: str
    folder: str
    repository: str = ""
    ref: str = "main"
    options: SyncOptions = SyncOptions()
    helm: HelmRelease | None = None
    dry_run: bool = False
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """Text that defines services; `origin` is its display name.
    A folder without a repository belongs to `repository` at `ref`, or is local if those are empty.
    """

    origin: str
    text: str
    repository: str = ""
    ref: str = ""
