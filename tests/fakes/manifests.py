"""A git cache in memory: commits are mappings from folder to objects."""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime

from core.errors import Invalid, NotFound
from core.identity import RepositoryId
from core.spec.bundle import Attestation, Bundle, KubeObject, digest_of, make_bundle, open_bundle
from core.spec.source import (
    BaseFolder,
    Commit,
    RenderedBundle,
    RenderRequest,
    RepositorySpec,
    RepositoryState,
)
from core.spec.statements.orders import OrderRequest
from core.spec.statements.signing_keys import SigningIdentity
from gitcache.render.signing import RenderSigner
from tests.fakes.clock import FakeClock
from tests.fakes.gitcache import fake_signer

_THEN = datetime(2026, 1, 1, tzinfo=UTC)


def config_map(name: str, **data: str) -> KubeObject:
    """A small object."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


_SIGNER = fake_signer(FakeClock())
Folders = Mapping[str, Sequence[KubeObject] | Exception]


class FakeManifests:
    """The `ManifestSource` port. A folder that holds an exception fails to render with it.

    `away`: what listing folders, resolving refs and signing orders fail with. `signer` signs
    orders; None: orders are not signed.
    """

    def __init__(self) -> None:
        self.specs: dict[str, RepositorySpec] = {}
        self.commits: dict[str, Folders] = {}
        self.heads: dict[str, dict[str, Commit]] = {}
        self.bundles: dict[str, Bundle] = {}
        self.renders: list[RenderRequest] = []
        self.files_of: dict[str, Mapping[str, bytes]] = {}
        self.bases: tuple[BaseFolder, ...] = ()
        self.hints: list[str] = []
        self.error: str | None = None
        self.reason = ""
        self.away: Exception | None = None
        self.signer: RenderSigner | None = None
        self._callbacks: list[Callable[[RepositoryState], None]] = []

    def push(
        self,
        repository_id: str,
        folders: Folders,
        ref: str = "main",
        author: str = "Ada <ada@example.org>",
    ) -> str:
        """Let a ref point at a new commit that holds these folders; its sha."""
        number = len(self.commits) + 1
        sha = hashlib.sha1(str(number).encode()).hexdigest()
        self.commits[sha] = folders
        commit = Commit(sha, author, f"Change {number}", _THEN)
        self.heads.setdefault(repository_id, {})[ref] = commit
        self.heads[repository_id][sha] = commit
        self.tell(repository_id)
        return sha

    def push_files(self, repository_id: str, files: Mapping[str, str], ref: str = "main") -> str:
        """Let a ref point at a new commit with these files; its sha."""
        self.files_of[hashlib.sha1(str(len(self.commits) + 1).encode()).hexdigest()] = {
            path: text.encode() for path, text in files.items()
        }
        return self.push(repository_id, {}, ref)

    def tell(self, repository_id: str) -> None:
        """Tell whoever listens of the state of a repository."""
        state = self.state(RepositoryId(repository_id))
        for callback in self._callbacks:
            if state is not None:
                callback(state)

    def follow(self, spec: RepositorySpec) -> None:
        self.specs[spec.id] = spec

    def forget(self, repository_id: RepositoryId) -> None:
        self.specs.pop(repository_id, None)

    def on_state(self, callback: Callable[[RepositoryState], None]) -> None:
        self._callbacks.append(callback)

    def state(self, repository_id: RepositoryId) -> RepositoryState | None:
        spec = self.specs.get(repository_id)
        if spec is None:
            return None
        heads = self.heads.get(repository_id, {})
        commits = {ref: heads[ref] for ref in spec.refs if ref in heads}
        missing = frozenset() if self.error else frozenset(spec.refs - commits.keys())
        return RepositoryState(
            repository_id, commits, missing, self.error, _THEN, _THEN, reason=self.reason
        )

    async def request_poll(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None = None
    ) -> None:
        self.hints.append(repository_id)

    async def trees(
        self, repository_id: RepositoryId, commit: str, folders: Collection[str]
    ) -> Mapping[str, str | None]:
        return {folder: self._tree(commit, folder) for folder in folders}

    async def folders(
        self, repository_id: RepositoryId, commit: str, base: str, depth: int
    ) -> list[str]:
        if self.away is not None:
            raise self.away
        parts = [path.split("/") for path in self.commits[commit]]
        every = {"/".join(one[:n]) for one in parts for n in range(1, len(one) + 1)}
        start = base.count("/") + 1 if base else 0
        below = [one for one in every if not base or one.startswith(f"{base}/")]
        return sorted(one for one in below if one.count("/") + 1 - start <= depth)

    async def files(
        self, repository_id: RepositoryId, commit: str, folder: str, endings: Collection[str]
    ) -> Mapping[str, bytes]:
        if self.away is not None:
            raise self.away
        inside = f"{folder}/" if folder else ""
        found = {
            path: content
            for path, content in self.files_of.get(commit, {}).items()
            if path.startswith(inside) and path.endswith(tuple(endings))
        }
        if not found:
            raise Invalid(f"there is no folder {folder!r} in commit {commit[:12]}")
        return found

    async def store_bundle(self, data: bytes) -> RenderedBundle:
        bundle = open_bundle(digest_of(data), data)
        self.bundles[bundle.digest] = bundle
        return RenderedBundle(bundle.digest, bundle.digest, len(data), bundle.count, cached=False)

    async def signing_identity(self) -> SigningIdentity:
        return (self.signer or _SIGNER).identity

    async def sign_orders(self, requests: Sequence[OrderRequest]) -> list[Attestation]:
        if self.away is not None:
            raise self.away
        return self.signer.sign_orders(requests) if self.signer else []

    async def renew(self, attestation: Attestation) -> Attestation:
        return self.signer.renew(attestation) if self.signer else attestation

    async def resolve(self, repository_id: RepositoryId, name: str) -> Commit:
        if self.away is not None:
            raise self.away
        commit = self.heads.get(repository_id, {}).get(name)
        if commit is None:
            raise NotFound(f"there is no {name!r}")
        return commit

    async def render(self, request: RenderRequest) -> RenderedBundle:
        self.renders.append(request)
        objects = self.commits[request.commit].get(request.folder)
        if isinstance(objects, Exception):
            raise objects
        if objects is None:
            raise Invalid(f"folder {request.folder!r} is not in commit {request.commit[:12]}")
        bundle = make_bundle(_filled(objects, request))
        self.bundles[bundle.digest] = bundle
        return RenderedBundle(
            source=f"sha256:{self._tree(request.commit, request.folder)}",
            digest=bundle.digest,
            size=len(bundle.data),
            count=bundle.count,
            cached=False,
            reads=(request.folder,),
            bases=self.bases,
        )

    async def bundle(self, digest: str) -> bytes:
        if digest not in self.bundles:
            raise NotFound(f"no bundle {digest}")
        return self.bundles[digest].data

    def _tree(self, commit: str, folder: str) -> str | None:
        content = self.commits[commit].get(folder)
        return None if content is None else hashlib.sha1(repr(content).encode()).hexdigest()


def _filled(objects: Sequence[KubeObject], request: RenderRequest) -> list[KubeObject]:
    """Objects whose `$configuration.NAME` values are filled in, as a template would."""
    values = request.parameters.get("configuration", {})
    return [
        {**one, "data": {k: values.get(v[1:], v) for k, v in one.get("data", {}).items()}}
        if one.get("data")
        else one
        for one in objects
    ]
