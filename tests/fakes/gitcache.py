"""The git cache's ports in memory: a server with commits, a disk, and scripted workers."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from core.errors import Invalid, TowlineError, Unavailable
from core.identity import RepositoryId
from core.runtime.clock import Clock
from core.signatures.artifact import ArtifactSignature
from core.spec.bundle import digest_of, make_bundle
from core.spec.images import ImageName
from core.spec.source import Commit, RepositorySpec
from core.spec.statements.attestation import Signer
from gitcache.coordination.local import SoleReplica
from gitcache.domain.commits import CommitRecord
from gitcache.domain.parameters import read_values
from gitcache.domain.references import ChartRef, References
from gitcache.domain.renders import ChartPin, ChartVersion, RenderJob, RenderResult
from gitcache.domain.trees import TREE, Entry
from gitcache.ports import CommitsRejected
from gitcache.render.signing import RenderSigner

FILE = 0o100644
WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def sha_of(number: int) -> str:
    """A made-up object id."""
    return f"{number:040x}"


def fake_signer(clock: Clock) -> RenderSigner:
    """Signs all renders and orders."""
    return RenderSigner(Signer.from_bytes(b"k" * 32), clock)


class FakeGit:
    """A git server and the local copy of it: lister, clones and reader in one.

    `refs` is what the server shows, `served` which commits it gives out. `error` makes the
    server fail. `polls` and `fetches` record what was asked.
    """

    def __init__(self) -> None:
        self.refs: dict[str, str] = {}
        self.served: set[str] = set()
        self.local: dict[str, str] = {}
        self.objects: dict[str, Mapping[str, Entry]] = {}
        self.files: dict[str, bytes] = {}
        self.roots: dict[str, str] = {}
        self.error: TowlineError | None = None
        self.polls: list[Sequence[str]] = []
        self.fetches: list[Mapping[str, str]] = []

    def push(self, ref: str, number: int) -> str:
        """Let a ref point at a commit, which the server gives out; its sha."""
        sha = sha_of(number)
        self.refs[ref] = sha
        self.served.add(sha)
        return sha

    async def list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        self.polls.append(prefixes)
        if self.error is not None:
            raise self.error
        return {ref: sha for ref, sha in self.refs.items() if ref in prefixes}

    async def fetch(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        self.fetches.append(dict(wants))
        if self.error is not None:
            raise self.error
        if unknown := set(wants.values()) - self.served:
            raise CommitsRejected(f"remote error: upload-pack: not our ref {unknown.pop()}")
        self.local |= wants

    async def pin(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        if not set(wants.values()) <= set(self.local.values()):
            raise Unavailable("not here")
        self.local |= wants

    async def pins(self, spec: RepositorySpec) -> Mapping[str, str]:
        return dict(self.local)

    async def size(self, spec: RepositorySpec) -> int | None:
        return 1000 * len(self.local) or None

    async def complete(self, spec: RepositorySpec, blobs: Collection[str]) -> None:
        """Nothing is left out here."""

    async def graft(self, spec: RepositorySpec, other: RepositorySpec, sha: str) -> None:
        self.local[f"at-{sha}"] = sha

    async def maintain(self, spec: RepositorySpec) -> None:
        """Nothing becomes loose here."""

    async def keep_only(self, specs: Collection[RepositorySpec]) -> int:
        return 0

    async def commit(self, spec: RepositorySpec, sha: str) -> CommitRecord | None:
        if sha not in self.local.values():
            return None
        return CommitRecord(self.roots.get(sha, ""), Commit(sha, "Ann <a@x>", "Change", WHEN))

    async def commit_object(self, spec: RepositorySpec, sha: str) -> bytes | None:
        """The commits have no objects."""
        return None

    def tree(self, root: str, files: Mapping[str, bytes]) -> None:
        """Let `root` be a tree of these files; each folder's id is derived from its content."""
        self._tree(files, root)

    def _tree(self, files: Mapping[str, bytes], known_as: str | None = None) -> str:
        entries: dict[str, Entry] = {}
        below: dict[str, dict[str, bytes]] = {}
        for path, data in files.items():
            name, slash, rest = path.partition("/")
            if slash:
                below.setdefault(name, {})[rest] = data
            else:
                entries[name] = Entry(FILE, self._blob(data))
        for name, inside in below.items():
            entries[name] = Entry(TREE, self._tree(inside))
        tree = known_as or sha_of(hash(str(sorted(files.items()))) & (2**60 - 1))
        self.objects[tree] = entries
        return tree

    def _blob(self, data: bytes) -> str:
        blob = sha_of(hash(data) & (2**60 - 1))
        self.files[blob] = data
        return blob

    async def ids(
        self, spec: RepositorySpec, tree: str, paths: Collection[str]
    ) -> Mapping[str, Entry | None]:
        return {path: self._find(tree, path) for path in paths}

    def _find(self, tree: str, path: str) -> Entry | None:
        here: Entry | None = Entry(TREE, tree)
        for name in path.split("/") if path else ():
            here = self.objects[here.id].get(name) if here and here.is_tree else None
        return here

    async def folders(self, spec: RepositorySpec, tree: str, depth: int) -> list[str]:
        found = []
        for name, entry in self.objects[tree].items() if depth else ():
            if entry.is_tree:
                inside = await self.folders(spec, entry.id, depth - 1)
                found += [name, *(f"{name}/{path}" for path in inside)]
        return found

    async def walk(self, spec: RepositorySpec, tree: str) -> Mapping[str, Entry]:
        found: dict[str, Entry] = {}
        for name, entry in self.objects[tree].items():
            if entry.is_tree:
                inside = await self.walk(spec, entry.id)
                found |= {f"{name}/{path}": one for path, one in inside.items()}
            else:
                found[name] = entry
        return found

    async def blobs(self, spec: RepositorySpec, ids: Collection[str]) -> Mapping[str, bytes]:
        return {one: self.files[one] for one in ids}

    async def prefetch(self, spec: RepositorySpec, tree: str, paths: Collection[str]) -> None:
        """Nothing is left out here."""

    async def release(self, spec: RepositorySpec) -> None:
        """Nothing is held open."""


class FakeWorkers:
    """Makes one object per job; `failure` fails, `gate` holds jobs back while it is clear.

    `reads` are the parameters that each render looks at; their values are in its object.
    """

    def __init__(self) -> None:
        self.jobs: list[RenderJob] = []
        self.scans: list[RenderJob] = []
        self.named: dict[bytes, list[str]] = {}
        self.charts: list[ChartRef] = []
        self.failure: Invalid | None = None
        self.reads: list[list[str]] = []
        self.tools = {"kustomize": "kustomize v5", "helm": "helm v4", "jsonnet": "rjsonnet"}
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def render(self, job: RenderJob) -> RenderResult:
        self.jobs.append(job)
        self.started.set()
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        texts = {path: data.decode() for path, data in job.files.items()}
        values = read_values(job.parameters, self.reads)
        bundle = make_bundle([{"kind": job.renderer, "files": texts, "values": values}])
        return RenderResult(bundle.data, bundle.count, self.reads)

    async def references(self, job: RenderJob) -> References:
        self.scans.append(job)
        named = [name for data in job.files.values() for name in self.named.get(data, [])]
        return References(named, self.charts)

    async def versions(self, index: bytes, chart: str) -> Sequence[ChartVersion]:
        lines = index.decode().splitlines()
        return [ChartVersion(*line.split()) for line in lines if chart in line]

    async def tool_version(self, renderer: str) -> str:
        return self.tools.get(renderer, "")


class FakeCharts:
    """Chart archives by name; each has version 1.0.0 and the digest of its bytes."""

    def __init__(self) -> None:
        self.archives: dict[str, bytes] = {}

    async def pin(self, chart: ChartRef) -> ChartPin:
        if chart.name not in self.archives:
            raise Invalid(f"there is no chart {chart.name!r}")
        digest = digest_of(self.archives[chart.name])
        return ChartPin(chart.name, "1.0.0", digest, chart)

    async def find_by_sha(self, spec: RepositorySpec, sha: str) -> ChartPin:
        for name, data in self.archives.items():
            if digest_of(data) == f"sha256:{sha}":
                return ChartPin(name, "1.0.0", f"sha256:{sha}", ChartRef(spec.url, name))
        raise CommitsRejected("no such chart")

    async def archive(self, pin: ChartPin) -> bytes:
        return self.archives[pin.name]

    async def signatures(self, pin: ChartPin) -> Sequence[ArtifactSignature]:
        """No chart is signed."""
        return ()


class FakeImages:
    """Images in registries: signatures by digest, and digests by tag."""

    def __init__(self) -> None:
        self.signed: dict[str, list[ArtifactSignature]] = {}
        self.tags: dict[str, str] = {}

    async def signatures(
        self, image: ImageName, project: str | None
    ) -> Sequence[ArtifactSignature]:
        return self.signed.get(image.digest, [])

    async def digest(self, image: ImageName, project: str | None) -> str:
        return self.tags.get(image.tag, "")


class FakeContent:
    """Content in memory; `broken` makes every write fail."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.broken = False

    async def get(self, digest: str) -> bytes | None:
        return self.kept.get(digest)

    async def put(self, digest: str, data: bytes) -> None:
        if self.broken:
            raise Unavailable("the disk of the git cache is full")
        self.kept[digest] = data


class FakeMemo:
    """Memos in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, dict] = {}

    async def get(self, key: str) -> dict | None:
        return self.kept.get(key)

    async def put(self, key: str, value: dict) -> None:
        self.kept[key] = value


class FakeCoordinator(SoleReplica):
    """Ownership that a test gives and takes; `claims` counts how often it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.mine = True
        self.claims = 0
        self.releases = 0

    async def claim(self, repository_id: RepositoryId) -> bool:
        self.claims += 1
        return self.mine and await super().claim(repository_id)

    async def release(self, repository_id: RepositoryId) -> None:
        self.releases += 1
        await super().release(repository_id)
