"""Services that this cluster defines itself, and how the control plane is to show them."""

from dataclasses import dataclass

from fleet.source import HelmRelease
from syncagent.domain.services import SyncOptions


@dataclass(frozen=True, slots=True)
class Definition:
    """A service that this cluster defines. Without a `repository` the folder is a local one.

    With `helm` it is a chart, else what its files say.
    """

    name: str
    namespace: str
    folder: str
    repository: str = ""
    ref: str = "main"
    options: SyncOptions = SyncOptions()
    helm: HelmRelease | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """Text that defines services; `origin` names it to people.

    A folder in it that names no repository is one of `repository` at `ref`; without these, a local
    one.
    """

    origin: str
    text: str
    repository: str = ""
    ref: str = ""


@dataclass(frozen=True, slots=True)
class Mirror:
    """Where it is from and what is desired now; `error`: why it cannot be rendered."""

    service_id: str
    name: str
    namespace: str
    repository: str = ""
    ref: str = ""
    folder: str = ""
    commit: str = ""
    digest: str = ""
    sequence: int = 0
    removed: bool = False
    error: str = ""
