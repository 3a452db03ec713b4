"""Ports of the git cache: Protocols over plain values."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.errors import Unavailable
from core.identity import ClusterId, RepositoryId
from core.signatures.artifact import ArtifactSignature
from core.spec.images import ImageName
from core.spec.source import RenderedBundle, RenderRequest, RepositorySpec, RepositoryState
from gitcache.domain.artifacts import ArtifactContent, BuiltCommit, CommitText
from gitcache.domain.commits import CommitRecord
from gitcache.domain.messages import Operation, Query, Result
from gitcache.domain.references import ChartRef, References
from gitcache.domain.remote_bases import BaseRef
from gitcache.domain.renders import ChartPin, ChartVersion, RenderJob, RenderResult
from gitcache.domain.trees import Entry

ON_DEMAND_PIN_PREFIX = "at-"
"""Prefix of pins of commits that were requested without a followed ref."""


class CommitsRejected(Unavailable):
    """The requested commits are invalid, not the connection; requesting fewer may work."""


class RefLister(Protocol):
    """Lists the refs of a git server."""

    async def list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        """Maps full ref names to commits (tags peeled). Raises Unavailable, Invalid."""
        ...


class CommitHistory(Protocol):
    """Histories of branches and tags on a git server."""

    async def contains(self, spec: RepositorySpec, commit: str, tips: Collection[str]) -> bool:
        """Reports whether a commit is an ancestor of one of these commits, or one of them.

        Raises Unavailable if the server sends no commits without files.
        """
        ...


class CommitFetcher(Protocol):
    """Fetches commits of followed repositories."""

    async def fetch(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        """Fetches and pins complete commits (pin name to sha).

        Raises Unavailable if server, network or disk fail; the copy stays unchanged. Raises
        CommitsRejected if the server lacks a commit, or git refuses its content.
        """
        ...


class PinnedCommits(CommitFetcher, Protocol):
    """Pins of fetched commits, which survive a restart."""

    async def pin(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        """Pins fetched commits under other names. Raises Unavailable if one is missing."""
        ...

    async def pins(self, spec: RepositorySpec) -> Mapping[str, str]:
        """Maps pins to commits; empty without a clone."""
        ...


class Clones(PinnedCommits, Protocol):
    """Local copies of followed repositories, as bare clones."""

    async def complete(self, spec: RepositorySpec, blobs: Collection[str]) -> None:
        """Fetches files that a lean copy lacks. Raises Unavailable."""
        ...

    async def graft(self, spec: RepositorySpec, other: RepositorySpec, sha: str) -> None:
        """Fetches a commit of another repository into this copy. Unavailable, CommitsRejected."""
        ...

    async def size(self, spec: RepositorySpec) -> int | None:
        """Returns the size on disk in bytes, None without a clone."""
        ...

    async def maintain(self, spec: RepositorySpec) -> None:
        """Packs loose objects if that is worth it."""
        ...

    async def keep_only(self, specs: Collection[RepositorySpec]) -> int:
        """Deletes the copies of all other repositories; returns their number."""
        ...


class CommitReader(Protocol):
    """Reads commits of a local copy, and looks up their paths."""

    async def commit(self, spec: RepositorySpec, sha: str) -> CommitRecord | None:
        """Reads a commit, None if the copy lacks it. Raises Unavailable."""
        ...

    async def ids(
        self, spec: RepositorySpec, tree: str, paths: Collection[str]
    ) -> Mapping[str, Entry | None]:
        """Looks paths up in a root tree; None for missing paths."""
        ...


class TreeReader(CommitReader, Protocol):
    """Reads commits, folders and files of a local copy."""

    async def commit_object(self, spec: RepositorySpec, sha: str) -> bytes | None:
        """Reads the bytes of a commit, with its signature; None for a chart. Unavailable."""
        ...

    async def folders(self, spec: RepositorySpec, tree: str, depth: int) -> list[str]:
        """Lists the folders up to `depth` levels below a tree. Raises Invalid beyond a limit."""
        ...

    async def walk(self, spec: RepositorySpec, tree: str) -> Mapping[str, Entry]:
        """Lists files and links below a tree by relative path. Raises Invalid beyond a limit."""
        ...

    async def blobs(self, spec: RepositorySpec, ids: Collection[str]) -> Mapping[str, bytes]:
        """Reads contents by id. Raises Invalid beyond a limit, Unavailable if one is missing."""
        ...

    async def prefetch(self, spec: RepositorySpec, tree: str, paths: Collection[str]) -> None:
        """Fetches the files below some paths of a lean copy. Raises Invalid, Unavailable."""
        ...

    async def release(self, spec: RepositorySpec) -> None:
        """Closes the handles of a copy that was replaced or is no longer followed."""
        ...


class Decryptor(Protocol):
    """Decrypts encrypted files of a repository right before a render."""

    def key_fingerprint(self, spec: RepositorySpec) -> str:
        """Names the keys of this repository; empty without keys.

        The name is part of the digest of all inputs, so that other repositories do not get files
        that these keys decrypted. It must not reveal the keys.
        """
        ...

    def is_encrypted(self, path: str, data: bytes) -> bool:
        """Detects encrypted files; must be fast, because it runs for each file of a render."""
        ...

    async def decrypt(self, spec: RepositorySpec, path: str, data: bytes) -> bytes:
        """Decrypts a file. Raises Invalid, Unavailable; the message names the file."""
        ...


class ContentStore(Protocol):
    """A store of immutable bytes by digest (`sha256:<hex>`)."""

    async def get(self, digest: str) -> bytes | None:
        """Returns verified bytes; None if they are absent, or damaged and therefore dropped.

        Raises Unavailable if they were not found and a location cannot be queried.
        """
        ...

    async def put(self, digest: str, data: bytes) -> None:
        """Stores the bytes. Raises Unavailable if the disk is full or broken."""
        ...


class Memo(Protocol):
    """A persistent cache of small JSON objects; a lost entry only costs time."""

    async def get(self, key: str) -> dict | None:
        """Returns a cached object, or None."""
        ...

    async def put(self, key: str, value: dict) -> None:
        """Caches an object. Raises Unavailable if the disk is full or broken."""
        ...


class ClusterEgress(Protocol):
    """Egress through the agents of clusters."""

    async def proxy_url(self, cluster_id: ClusterId) -> str:
        """Returns the `http://` URL of a local CONNECT proxy whose connections leave the cluster.

        Raises Unavailable if the cluster's agent is not connected or does not support egress.
        """
        ...


class Coordinator(Protocol):
    """Ownership of repositories; with a single replica, that one owns all."""

    async def claim(self, repository_id: RepositoryId) -> bool:
        """Becomes or stays the owner; returns False while another replica owns the repository."""
        ...

    async def release(self, repository_id: RepositoryId) -> None:
        """Gives up ownership."""
        ...


class Charts(Protocol):
    """Fetches charts from chart repositories and OCI registries, within limits."""

    async def pin(self, chart: ChartRef) -> ChartPin:
        """Resolves a reference now. Raises Invalid if there is no such chart, Unavailable."""
        ...

    async def find_by_sha(self, spec: RepositorySpec, sha: str) -> ChartPin:
        """Finds the chart of a chart repository's commit. Raises CommitsRejected if it is gone."""
        ...

    async def archive(self, pin: ChartPin) -> bytes:
        """Returns the verified archive of a pinned chart. Raises Unavailable."""
        ...

    async def signatures(self, pin: ChartPin) -> Sequence[ArtifactSignature]:
        """Returns cosign's signatures of a chart in a registry; none elsewhere. Unavailable."""
        ...


class ImageRegistry(Protocol):
    """Reads digests and signatures of container images, with a project's accounts."""

    async def signatures(self, image: ImageName, project: str) -> Sequence[ArtifactSignature]:
        """Returns cosign's signatures of an image by its digest. Unavailable."""
        ...

    async def digest(self, image: ImageName, project: str) -> str:
        """Returns the digest of an image's tag now; empty: there is none. Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class FoundBase:
    """The commit of a base: its repository, id and root tree."""

    spec: RepositorySpec
    commit: str
    tree: str


class Bases(Protocol):
    """Finds the commits of remote bases among the connected repositories."""

    async def find(self, origin: RepositorySpec, base: BaseRef) -> FoundBase:
        """Finds a base for a kustomization of `origin`. Raises Invalid, Unavailable."""
        ...


class FollowedCharts(RefLister, PinnedCommits, CommitReader, Protocol):
    """Followed chart repositories: a commit is the sha256 of a chart archive."""


class FollowedArtifacts(RefLister, CommitFetcher, Protocol):
    """Followed repositories of artifacts: a commit has the files of one artifact."""


class ArtifactWorkers(Protocol):
    """Unpacks artifacts in other processes, with limits on time and memory."""

    async def artifact(self, text: CommitText, layers: Sequence[ArtifactContent]) -> BuiltCommit:
        """Unpacks the layers of an artifact to a commit. Raises Invalid, Unavailable."""
        ...


class RenderWorkers(Protocol):
    """Runs jobs in other processes, with limits on time and memory."""

    async def render(self, job: RenderJob) -> RenderResult:
        """Renders files to objects. Raises RenderInputError for invalid input, Unavailable."""
        ...

    async def references(self, job: RenderJob) -> References:
        """Finds the references in the sources below `folder`, relative to the repository root."""
        ...

    async def versions(self, index: bytes, chart: str) -> Sequence[ChartVersion]:
        """Lists the versions of a chart in an index. Raises Invalid if there are none."""
        ...

    async def tool_version(self, renderer: str) -> str:
        """Returns name and version of a renderer's tool, empty if it needs none.

        Raises Unavailable if the tool is missing, Invalid for an unknown renderer.
        """
        ...


@dataclass(frozen=True, slots=True)
class ReplicaMember:
    """A replica: a name that is stable over restarts, and `host:port` of its internal API."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class StatePublished:
    """The owner of a repository has published its state."""

    state: RepositoryState


@dataclass(frozen=True, slots=True)
class HintForwarded:
    """A replica has received a webhook."""

    repository_id: RepositoryId
    announced: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class PlacementChanged:
    """Members or owners have changed, or a replica is prepared to become an owner."""


ReplicaEvent = StatePublished | HintForwarded | PlacementChanged


class PeerUnavailable(Unavailable):
    """Another replica cannot be reached; retry there or at another one."""


class PeerTimeout(PeerUnavailable):
    """The replica has not answered in time; the operation may still be running."""


class NotOwner(PeerUnavailable):
    """The replica does not own the repository; another one may."""


class Replicas(Coordinator, Protocol):
    """All replicas of the git cache, and the owners of repositories.

    Methods without `await` answer from memory, with the last data of the coordination server.
    Without that server, a replica owns nothing once its lease has expired.
    """

    me: ReplicaMember

    async def start(self, listen: Callable[[ReplicaEvent], None]) -> None:
        """Joins. `listen` gets all known states and then every change."""
        ...

    async def stop(self) -> None:
        """Leaves, and releases all owned repositories at once."""
        ...

    def members(self) -> Sequence[ReplicaMember]:
        """Lists the replicas that may own repositories: those present for at least a heartbeat."""
        ...

    def owner(self, repository_id: RepositoryId) -> ReplicaMember | None:
        """Returns the owner of a repository, or None."""
        ...

    def holds_lease(self, repository_id: RepositoryId) -> bool:
        """True if this replica holds a valid lease of the repository."""
        ...

    def prepared_replica(self, repository_id: RepositoryId) -> str | None:
        """Returns the name of the replica that is prepared to take over, or None."""
        ...

    async def announce_prepared(self, repository_id: RepositoryId) -> None:
        """Announces that this replica is prepared to take over. Raises Unavailable."""
        ...

    async def publish(self, state: RepositoryState) -> bool:
        """Publishes a state to all replicas; returns False if not the owner. Unavailable."""
        ...

    async def forward_hint(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None
    ) -> None:
        """Forwards a webhook's announcement to the owner. Raises Unavailable."""
        ...


class PeerOperations(Protocol):
    """Runs operations of `GitCache` at other replicas, which do not forward them."""

    async def call(
        self, member: ReplicaMember, operation: Operation[Query, Result], query: Query
    ) -> Result:
        """Runs an operation at a replica. Raises its errors, and PeerUnavailable."""
        ...

    async def render(self, member: ReplicaMember, request: RenderRequest) -> RenderedBundle:
        """Runs `GitCache.render` at a replica, and may store the bundle. Raises as `call`."""
        ...


class LiveDigests(Protocol):
    """Digests of bundles in use."""

    async def live_digests(self) -> Collection[str] | None:
        """Returns all digests in use or kept for rollbacks; None if unknown: evict nothing."""
        ...
