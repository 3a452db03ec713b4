"""Sources of desired state: repositories, commits, renders.

The control plane and the git cache exchange these values, in one process or over the network.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from core.identity import DEFAULT_PROJECT, ClusterId, RepositoryId
from core.json_object import JsonMapping
from core.spec.bundle import Attestation
from core.spec.image_signatures import NO_SIGNATURE_RULES, SignatureRules
from core.spec.renderers import AUTO, HelmRelease, RenderOptions

MAX_READ_FILES = 5_000
"""Maximum number of files of one read."""
MAX_READ_BYTES = 8 * 1024 * 1024
"""Maximum size of the files of one read, together."""


@dataclass(frozen=True, slots=True, repr=False)
class GitCredentials:
    """Credentials and connection settings of a repository. Has no repr, so it is never printed."""

    username: str | None = None
    """Username for HTTPS."""
    password: str | None = None
    """Password or token for HTTPS."""
    private_key: str | None = None
    """SSH private key, or private key of the GitHub App, in PEM."""
    passphrase: str | None = None
    """Passphrase of the SSH private key."""
    app_id: str | None = None
    """ID of the GitHub App."""
    installation_id: str | None = None
    """ID of the installation of the GitHub App."""
    api_url: str | None = None
    """URL of the GitHub API. Default: derived from `url`."""
    client_certificate: str | None = None
    """TLS client certificate in PEM."""
    client_key: str | None = None
    """Key of the TLS client certificate in PEM."""
    authority: str | None = None
    """CA certificates of the server in PEM. Default: the system's."""
    known_hosts: str | None = None
    """SSH host keys in the format of OpenSSH's `known_hosts`."""
    proxy: str | None = None
    """HTTP proxy: `http://[user:password@]host:port`."""


class RepositoryKind(StrEnum):
    """GIT: a git repository. HELM: a chart repository or an OCI registry. OCI: artifacts with
    files."""

    GIT = "GIT"
    HELM = "HELM"
    OCI = "OCI"

    @property
    def has_folders(self) -> bool:
        """True if its commits have folders with files; false if each of them is a chart."""
        return self is not RepositoryKind.HELM


@dataclass(frozen=True, slots=True)
class RepositorySpec:
    """A repository to follow, with the refs in use: branches, tags, full ref names or shas.

    Refs of a chart repository are results of `chart_ref` or sha256 sums of archives. Refs of a
    repository of artifacts are tags, version ranges, digests of manifests, or commits.

    `via` names the cluster whose agent reaches the server. With `submodules`, folders contain
    the files of their submodules; each must be a followed repository of the same `project`.
    `folders` are paths in use: of a huge repository, their files are fetched with each commit,
    other files on demand.
    """

    id: RepositoryId
    url: str
    refs: frozenset[str]
    credentials: GitCredentials | None = None
    via: ClusterId | None = None
    submodules: bool = False
    project: str = DEFAULT_PROJECT
    folders: frozenset[str] = frozenset()
    kind: RepositoryKind = RepositoryKind.GIT


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit."""

    sha: str
    """Full SHA of the commit."""
    author: str
    """Author as `Name <email>`."""
    subject: str
    """First line of the commit message."""
    committed_at: datetime
    """Time of the commit; of an artifact, when it was made."""


@dataclass(frozen=True, slots=True)
class RepositoryState:
    """Observed state of a repository, published when a followed ref or the health changes.

    `commits` maps each existing followed ref to its commit; after a failure it keeps the last
    good set. `error` is for people and contains no credentials. `size` is the size of the local
    copy in bytes, and `owner` the replica that fetches it. `reached` is true if the server has
    answered for this URL and its credentials. `reason` is the code of `error`, which says whether a
    retry may help.
    """

    repository_id: RepositoryId
    commits: Mapping[str, Commit]
    missing: frozenset[str]
    error: str | None
    polled_at: datetime
    fetched_at: datetime | None
    size: int | None = None
    owner: str | None = None
    reached: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SourceFolder:
    """A folder of another repository, mounted at `path` in the service's folder."""

    repository_id: RepositoryId
    commit: str
    folder: str
    path: str


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """All inputs of a render. `folder` is relative to the repository root; empty is the root.

    `renderer` is the name of a renderer of the git cache, or AUTO. `kustomize_path` is relative
    to `folder`. `parameters` is JSON; templates can use it only if `templated` is set, and only
    used parameters affect the result. `sources` are merged into the folder in order. `by` names
    the cluster whose agent renders; None means the git cache. The result does not depend on
    where it is rendered. `signatures` are rules that every source and image must satisfy; without
    rules, none needs a signature.
    """

    repository_id: RepositoryId
    commit: str
    folder: str
    renderer: str = AUTO
    kustomize_path: str | None = None
    templated: bool = False
    parameters: JsonMapping = field(default_factory=dict)
    helm: HelmRelease | None = None
    options: RenderOptions = RenderOptions()
    sources: tuple[SourceFolder, ...] = ()
    by: ClusterId | None = None
    signatures: SignatureRules = NO_SIGNATURE_RULES


@dataclass(frozen=True, slots=True)
class FetchedChart:
    """A chart that a render fetched from a repository."""

    url: str
    name: str


@dataclass(frozen=True, slots=True)
class BaseFolder:
    """A folder or file of a connected repository that a kustomization names by URL."""

    url: str
    folder: str
    ref: str


@dataclass(frozen=True, slots=True)
class RenderedFile:
    """A file, and the number of objects in a row that came from it."""

    path: str
    objects: int


@dataclass(frozen=True, slots=True)
class RenderedBundle:
    """A finished render: `source` is the digest of its inputs, `digest` that of the bundle.

    `reads` lists every folder and file of the commit that the render depends on, its own folder
    first. While their git ids stay the same, so does the result. `attestation` is the render
    tier's signature, if it signs. `charts` are all fetched charts, `bases` all remote bases.
    `files` are those of the objects in their order, at most the first `MAX_RENDERED_FILES`.
    """

    source: str
    digest: str
    size: int
    count: int
    cached: bool
    reads: tuple[str, ...] = ()
    attestation: Attestation | None = None
    charts: tuple[FetchedChart, ...] = ()
    files: tuple[RenderedFile, ...] = ()
    bases: tuple[BaseFolder, ...] = ()

    def file_of(self, number: int) -> str:
        """Returns the file of the object with this number, from 0; empty: unknown."""
        for file in self.files:
            if number < file.objects:
                return file.path
            number -= file.objects
        return ""
