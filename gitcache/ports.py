"""What the verbs need of the world, as Protocols over plain values."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fleet.errors import Invalid, Unavailable
from fleet.identity import ClusterId, RepositoryId
from fleet.source import (
    Commit,
    HelmRelease,
    Rendered,
    RenderRequest,
    RepositorySpec,
    RepositoryState,
)
from gitcache.domain.objects import CommitRecord, Entry

ASKED_PIN = "at-"
"""Prefix of pins of commits that were asked for though no followed ref points to them."""


class Rejected(Unavailable):
    """The commits asked for are at fault, not the way to them; asking for fewer may work."""


class RefLister(Protocol):
    """Asks a git server where its refs are."""

    async def list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        """Full ref name to commit (tags peeled). Unavailable, with the reason; Invalid."""
        ...


class Clones(Protocol):
    """Local copies of followed repositories: objects only, never files."""

    async def fetch(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        """Have these commits (pin name to sha) complete, kept until pinned elsewhere.

        Unavailable: the server, the network or the disk failed; what was there stays.
        Rejected: the server does not have one of them, or one holds what git forbids.
        """
        ...

    async def pin(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        """Keep commits that were fetched under other names. Unavailable: one is not there."""
        ...

    async def complete(self, spec: RepositorySpec, blobs: Collection[str]) -> None:
        """Have files that the copy has left out so far. Unavailable."""
        ...

    async def graft(self, spec: RepositorySpec, other: RepositorySpec, sha: str) -> None:
        """Have a commit of another repository in the copy of this one. Unavailable, Rejected."""
        ...

    async def pins(self, spec: RepositorySpec) -> Mapping[str, str]:
        """What is pinned now; empty without a clone."""
        ...

    async def size(self, spec: RepositorySpec) -> int | None:
        """Bytes on disk; None without a clone."""
        ...

    async def maintain(self, spec: RepositorySpec) -> None:
        """Pack what has become loose, where it is worth it."""
        ...

    async def keep_only(self, specs: Collection[RepositorySpec]) -> int:
        """Delete the copies of all other repositories; how many were deleted."""
        ...


class TreeReader(Protocol):
    """Reads commits, folders and files of a local copy."""

    async def commit(self, spec: RepositorySpec, sha: str) -> CommitRecord | None:
        """The commit, or None if the copy does not have it. Unavailable: it cannot be read."""
        ...

    async def ids(
        self, spec: RepositorySpec, tree: str, paths: Collection[str]
    ) -> Mapping[str, Entry | None]:
        """What each path is inside a root tree; None: not there."""
        ...

    async def folders(self, spec: RepositorySpec, tree: str, depth: int) -> list[str]:
        """Paths of the folders at most so many levels below a tree. Invalid: beyond the limits."""
        ...

    async def walk(self, spec: RepositorySpec, tree: str) -> Mapping[str, Entry]:
        """All files and links below a tree by relative path. Invalid: beyond the limits."""
        ...

    async def blobs(self, spec: RepositorySpec, ids: Collection[str]) -> Mapping[str, bytes]:
        """Contents by id. Invalid: beyond the limits. Unavailable: one is missing."""
        ...

    async def prefetch(self, spec: RepositorySpec, tree: str, paths: Collection[str]) -> None:
        """Have the files below some paths, if the copy leaves files out. Invalid, Unavailable."""
        ...

    async def release(self, spec: RepositorySpec) -> None:
        """Forget open handles of a copy that was replaced or is no longer followed."""
        ...


class Decryptor(Protocol):
    """Opens files that lie encrypted in git, right before they are rendered."""

    def keys(self, spec: RepositorySpec) -> str:
        """A name for the keys that open this repository's files, empty if there are none.

        It is part of the digest of all inputs, so what one repository's keys have opened is not
        given to another. It must not tell anything of the keys.
        """
        ...

    def is_encrypted(self, path: str, data: bytes) -> bool:
        """Whether `decrypt` is for this file: a quick look, once for each file of a render."""
        ...

    async def decrypt(self, spec: RepositorySpec, path: str, data: bytes) -> bytes:
        """The file in the clear. Invalid, Unavailable: why not; the message names the file."""
        ...


class ContentStore(Protocol):
    """Immutable bytes by their digest (`sha256:<hex>`)."""

    async def get(self, digest: str) -> bytes | None:
        """The bytes, verified; None if absent, or if what was there is damaged (then dropped).

        Unavailable: they are not where this looked, and another place does not answer.
        """
        ...

    async def put(self, digest: str, data: bytes) -> None:
        """Keep the bytes. Unavailable: the disk is full or broken."""
        ...


class Memo(Protocol):
    """Small JSON objects by key, kept over restarts; losing one costs only work."""

    async def get(self, key: str) -> dict | None:
        """What was remembered."""
        ...

    async def put(self, key: str, value: dict) -> None:
        """Remember. Unavailable: the disk is full or broken."""
        ...


class Egress(Protocol):
    """Ways out through the agents of clusters."""

    async def proxy_url(self, cluster_id: ClusterId) -> str:
        """The `http://` URL of a proxy on this machine whose CONNECT ends in the cluster.

        Unavailable: the cluster's agent is not connected, or does not offer this.
        """
        ...


class Coordinator(Protocol):
    """Which replica may fetch a repository; with one replica it is always this one."""

    async def claim(self, repository_id: RepositoryId) -> bool:
        """Become or stay the owner; False while another replica is."""
        ...

    async def release(self, repository_id: RepositoryId) -> None:
        """Give ownership back."""
        ...


@dataclass(frozen=True, slots=True)
class RenderJob:
    """One piece of work for a worker: everything it may see.

    `files` maps paths relative to the root of the repository to contents. `folder` is the
    service's folder, `root` the folder that kustomize, Helm or Jsonnet starts at. Templates are
    filled in only where `templated` is set. For Helm, `values` are paths of `files` in their
    order, and `archives` says below which folder each chart archive among `files` belongs.
    """

    renderer: str
    folder: str
    root: str
    files: Mapping[str, bytes]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    templated: bool = False
    helm: HelmRelease | None = None
    values: Sequence[str] = ()
    archives: Mapping[str, str] = field(default_factory=dict)


Reads = Sequence[Sequence[str]]
"""Paths of the parameters that a worker looked at; others made no difference to its result."""


class RenderFailed(Invalid):
    """The input is at fault; so it would be with any parameters that agree on `reads`."""

    def __init__(self, message: str, reads: Reads) -> None:
        super().__init__(message)
        self.reads = reads


@dataclass(frozen=True, slots=True)
class RenderResult:
    """The canonical bundle's bytes, how many objects it holds, and which parameters were read."""

    data: bytes
    count: int
    reads: Reads = ()


@dataclass(frozen=True, slots=True)
class ChartRef:
    """A chart as people name it: `version` is one, a range, or empty for the newest.

    `repository` is the URL of a chart repository, `oci://…`, or `file://…` beside the chart;
    `project` is whose credentials may be used for it.
    """

    repository: str
    name: str
    version: str = ""
    project: str | None = None


@dataclass(frozen=True, slots=True)
class ChartPin:
    """One exact chart; `digest` is the sha256 of its archive's bytes (`sha256:<hex>`)."""

    name: str
    version: str
    digest: str
    origin: ChartRef


@dataclass(frozen=True, slots=True)
class ChartVersion:
    """A version that a chart repository's index offers; `digest` is empty or 64 hex digits."""

    version: str
    digest: str
    url: str


@dataclass(frozen=True, slots=True)
class References:
    """What a folder's files name, relative to it: paths, charts, and targets of links outside."""

    paths: Sequence[str] = ()
    charts: Sequence[ChartRef] = ()
    reads: Reads = ()
    links: Sequence[str] = ()


class Charts(Protocol):
    """Fetches charts from chart repositories and OCI registries, within bounds."""

    async def pin(self, wanted: ChartRef) -> ChartPin:
        """Which chart that is now. Invalid: there is none. Unavailable: ask again."""
        ...

    async def at(self, spec: RepositorySpec, sha: str) -> ChartPin:
        """The chart that a commit of a place of charts is. Rejected: it is not offered any more."""
        ...

    async def archive(self, pin: ChartPin) -> bytes:
        """The bytes of a pinned chart; they have its digest. Unavailable: not to be had now."""
        ...


class ChartPlaces(Protocol):
    """Chart repositories that are followed: a commit is the archive of a chart, by its sha256."""

    async def list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        """See `RefLister.list_refs`."""
        ...

    async def fetch(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        """See `Clones.fetch`."""
        ...

    async def pin(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        """See `Clones.pin`."""
        ...

    async def pins(self, spec: RepositorySpec) -> Mapping[str, str]:
        """See `Clones.pins`."""
        ...

    async def commit(self, spec: RepositorySpec, sha: str) -> CommitRecord | None:
        """See `TreeReader.commit`."""
        ...

    async def ids(
        self, spec: RepositorySpec, tree: str, paths: Collection[str]
    ) -> Mapping[str, Entry | None]:
        """See `TreeReader.ids`."""
        ...


class Workers(Protocol):
    """Runs jobs outside this process, within limits of time and memory."""

    async def render(self, job: RenderJob) -> RenderResult:
        """Objects from files. RenderFailed: the input is at fault. Unavailable: try again."""
        ...

    async def references(self, job: RenderJob) -> References:
        """What the sources below `folder` name, relative to the repository's root."""
        ...

    async def versions(self, index: bytes, chart: str) -> Sequence[ChartVersion]:
        """The versions of a chart in a chart repository's index. Invalid: none, or no index."""
        ...

    async def tool(self, renderer: str) -> str:
        """Name and version of what renders. Unavailable: it is needed and not there."""
        ...


@dataclass(frozen=True, slots=True)
class Member:
    """A replica: a name that outlives restarts, and `host:port` of its internal listener."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class StateNews:
    """The owner of a repository has published its state."""

    state: RepositoryState


@dataclass(frozen=True, slots=True)
class HintNews:
    """A webhook has come to one of the replicas."""

    repository_id: RepositoryId
    announced: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class PlaceNews:
    """Members or owners have changed, or one has said that it is prepared to be owner."""


News = StateNews | HintNews | PlaceNews


class PeerAway(Unavailable):
    """Another replica does not answer; it may be asked again, or another one may."""


class PeerSlow(PeerAway):
    """It has not answered yet: what it was asked for may still be under way."""


class NotOwner(PeerAway):
    """Asked of a replica that does not own a repository, or not any more; another one may."""


class Replicas(Coordinator, Protocol):
    """All replicas of the git cache, and which of them owns what.

    What is asked without `await` is answered from memory. It is as old as the last word of the
    coordinating server; without that server a replica owns nothing once its lease has run out.
    """

    me: Member

    async def start(self, listen: Callable[[News], None]) -> None:
        """Join. `listen` hears of all that changes, from now on; states known already too."""
        ...

    async def stop(self) -> None:
        """Leave: what was owned is free at once."""
        ...

    def members(self) -> Sequence[Member]:
        """Who may own repositories: everyone that has been here for a heartbeat."""
        ...

    def owner(self, repository_id: RepositoryId) -> Member | None:
        """Who owns a repository; None while nobody does."""
        ...

    def holds(self, repository_id: RepositoryId) -> bool:
        """Whether this replica owns it, beyond doubt."""
        ...

    def prepared(self, repository_id: RepositoryId) -> str | None:
        """The name of the replica that has said it could take over at once."""
        ...

    async def prepare(self, repository_id: RepositoryId) -> None:
        """Say that this replica has what it needs to take over at once. Unavailable."""
        ...

    async def publish(self, state: RepositoryState) -> bool:
        """Let all replicas know a state. False: refused, as this is not the owner. Unavailable."""
        ...

    async def hint(self, repository_id: RepositoryId, announced: Mapping[str, str] | None) -> None:
        """Pass a webhook's news on to whoever is the owner. Unavailable."""
        ...


class Peers(Protocol):
    """The verbs of other replicas. All raise PeerAway, besides what the verb itself raises."""

    async def trees(
        self, member: Member, repository_id: RepositoryId, commit: str, folders: Collection[str]
    ) -> Mapping[str, str | None]:
        """See `GitCache.trees`, by the owner."""
        ...

    async def folders(
        self, member: Member, repository_id: RepositoryId, commit: str, base: str, depth: int
    ) -> list[str]:
        """See `GitCache.folders`, by the owner."""
        ...

    async def resolve(self, member: Member, repository_id: RepositoryId, name: str) -> Commit:
        """The commit that a branch, tag or sha means now. NotFound, Unavailable, PeerAway."""
        ...

    async def render(self, member: Member, request: RenderRequest) -> Rendered:
        """See `GitCache.render`, by the owner."""
        ...


class LiveDigests(Protocol):
    """Which bundles may still be asked for."""

    async def live(self) -> Collection[str] | None:
        """All digests in use or kept for a rollback; None: not known, so nothing may go."""
        ...
