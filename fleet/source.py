"""Values that say where desired state comes from: repositories, commits, renders.

The git cache makes them, the control plane keeps them; they cross the border between the two,
in one process or over the network.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import quote, unquote

from fleet.attestation import Attestation
from fleet.identity import ClusterId, RepositoryId


@dataclass(frozen=True, slots=True, repr=False)
class GitCredentials:
    """How to reach and read a repository. Never printed: it has no repr.

    `username`/`password` for https (a token goes into `password`), `private_key` (PEM or OpenSSH
    text) with optional `passphrase` for ssh. With `app_id` the private key is that of a GitHub
    App, which is asked for tokens of `installation_id` at `api_url`. `client_certificate` and
    `client_key` sign in by TLS, `authority` is trusted beside the system's (all PEM).
    `known_hosts` holds the server's ssh keys in OpenSSH's form. `proxy` is the `http://` URL of
    a CONNECT proxy.
    """

    username: str | None = None
    password: str | None = None
    private_key: str | None = None
    passphrase: str | None = None
    app_id: str | None = None
    installation_id: str | None = None
    api_url: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    authority: str | None = None
    known_hosts: str | None = None
    proxy: str | None = None


class RepositoryKind(StrEnum):
    """GIT: a git repository. HELM: a place of charts, a chart repository or an OCI registry."""

    GIT = "GIT"
    HELM = "HELM"


@dataclass(frozen=True, slots=True)
class RepositorySpec:
    """A repository to follow: its refs in use are branch or tag names, full ref names or shas.

    Of a place of charts they are what `chart_ref` makes, or sha256 sums of archives.

    `via` names the cluster whose agent reaches the server. With `submodules` their files belong
    to the folders they are in; each must be a repository that is followed too, in the same
    `project`. `folders` are paths known to be in use: of a huge repository their files are
    fetched with each commit, others when they are asked for.
    """

    id: RepositoryId
    url: str
    refs: frozenset[str]
    credentials: GitCredentials | None = None
    via: ClusterId | None = None
    submodules: bool = False
    project: str | None = None
    folders: frozenset[str] = frozenset()
    kind: RepositoryKind = RepositoryKind.GIT


def chart_ref(chart: str, version: str) -> str:
    """The ref that stands for a chart and a version, a range, or empty for the newest."""
    return f"{chart}/{quote(version or '*', safe='').replace('~', '%7E')}"


def chart_of_ref(ref: str) -> tuple[str, str] | None:
    """Chart and version that a ref stands for; None: it stands for none."""
    chart, _, version = ref.rpartition("/")
    return (chart, unquote(version)) if chart and version else None


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit as people name it; `author` is `Name <mail>`."""

    sha: str
    author: str
    subject: str
    committed_at: datetime


@dataclass(frozen=True, slots=True)
class RepositoryState:
    """What is known of a repository now; told whenever a followed ref moves or health changes.

    `commits` maps each followed ref that exists to its commit; after a failure it is the last
    good set. `error` is for people and holds no credential. `size` is that of the local copy in
    bytes, `owner` the replica that fetches it.
    """

    repository_id: RepositoryId
    commits: Mapping[str, Commit]
    missing: frozenset[str]
    error: str | None
    polled_at: datetime
    fetched_at: datetime | None
    size: int | None = None
    owner: str | None = None


class Renderer(StrEnum):
    """How a folder becomes objects.

    AUTO looks at the folder: a kustomization, a chart, a `main.jsonnet`, else plain files.
    """

    AUTO = "auto"
    RAW = "raw"
    KUSTOMIZE = "kustomize"
    HELM = "helm"
    JSONNET = "jsonnet"


@dataclass(frozen=True, slots=True)
class HelmRelease:
    """How a chart is rendered.

    Without `url` the chart is the folder `chart`, relative to the service's folder, or that
    folder itself. With `url` (a chart repository, or `oci://…`) `chart` is its name there and
    `version` one version, a range, or None for the newest. `values_files` are relative to the
    service's folder; later ones win, and `values` (YAML text) wins over all.
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


@dataclass(frozen=True, slots=True)
class SourceFolder:
    """Another folder of some repository; its files are put below `path` of the service's."""

    repository_id: RepositoryId
    commit: str
    folder: str
    path: str


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """Everything a render depends on. `folder` is relative to the root, empty for the root.

    `kustomize_path` is relative to `folder`. `parameters` is JSON-like; templates may use it
    only where `templated` is set, and only what they use makes a difference. `sources` are
    merged into the folder in their order. `by` names the cluster whose agent renders it; None:
    whoever is asked. The result is the same wherever it is made.
    """

    repository_id: RepositoryId
    commit: str
    folder: str
    renderer: Renderer = Renderer.AUTO
    kustomize_path: str | None = None
    templated: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)
    helm: HelmRelease | None = None
    sources: tuple[SourceFolder, ...] = ()
    by: ClusterId | None = None


@dataclass(frozen=True, slots=True)
class Rendered:
    """A finished render: `source` is the digest of all inputs, `digest` names the bundle.

    `reads` names every folder and file of the commit that the render depends on, its own folder
    first: as long as the git ids of all these stay the same, so does the result. `attestation`
    is the render tier's word on it, if it signs.
    """

    source: str
    digest: str
    size: int
    count: int
    cached: bool
    reads: tuple[str, ...] = ()
    attestation: Attestation | None = None
