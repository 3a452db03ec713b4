"""Follows repositories of artifacts: a ref is a tag, a version range or the digest of a manifest.

An artifact becomes a commit without parents, so a new artifact is a new commit of its tag.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.errors import Invalid, NotFound
from core.outbound.oci import OciRegistryClient
from core.outbound.reply import HttpClient
from core.runtime.clock import Clock
from core.runtime.ttl_cache import TTLCache
from core.spec.images import is_digest, is_tag
from core.spec.source import RepositorySpec
from gitcache.charts.credentials import ChartCredentialFinder
from gitcache.domain import refs
from gitcache.domain.artifacts import BuiltCommit, commit_text, digest_of_commit
from gitcache.domain.inputs import digest_of_json
from gitcache.oci.registry import ArtifactRegistry
from gitcache.ports import ArtifactWorkers, CommitsRejected, ContentStore, Memo
from gitcache.render.unpack.commit import object_bytes

_FORMAT = 1
"""Increase it when the same artifact becomes another commit."""
_MAX_PACKS_BYTES = 128 << 20
_REFUSED_SECONDS = 600.0
_MAX_REFUSED = 1000


class PackedClones(Protocol):
    """Clones that take commits from packs."""

    async def missing_commits(self, spec: RepositorySpec, commits: Collection[str]) -> set[str]:
        """Returns the commits that a clone lacks."""
        ...

    async def add_packs(
        self, spec: RepositorySpec, wants: Mapping[str, str], packs: Collection[bytes]
    ) -> None:
        """Adds commits from packs and pins them (pin name to sha). Unavailable, CommitsRejected."""
        ...


@dataclass(frozen=True, slots=True)
class ArtifactStores:
    """Stores of artifacts: commits by id, commits of manifests, and clones."""

    content: ContentStore
    memo: Memo
    clones: PackedClones


class ArtifactMirror:
    """Implements `FollowedArtifacts`; downloads at most `max_bytes` for an artifact."""

    def __init__(
        self,
        http: HttpClient,
        accounts: ChartCredentialFinder,
        workers: ArtifactWorkers,
        stores: ArtifactStores,
        clock: Clock,
        max_bytes: int,
    ) -> None:
        self._client = OciRegistryClient(http, clock)
        self._accounts = accounts
        self._workers = workers
        self._stores = stores
        self._max_bytes = max_bytes
        self._recent_packs: OrderedDict[str, bytes] = OrderedDict()
        self._refused: TTLCache[tuple[str, str], str] = TTLCache(
            clock, _REFUSED_SECONDS, _MAX_REFUSED
        )

    async def list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        """Implements `RefLister.list_refs`.

        An artifact that cannot become a commit has the hex digits of its digest as its id: `fetch`
        rejects it with the reason, and other refs stay up to date.
        """
        registry = self._registry(spec)
        if refs.HEAD in prefixes:
            await registry.check()
        listed: dict[str, str] = {}
        for prefix in prefixes:
            name = refs.artifact_of(prefix)
            digest = await _resolve_digest(registry, name) if name is not None else None
            if digest is not None:
                listed[prefix] = await self._commit_for(spec, registry, digest)
        return listed

    async def fetch(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        """Implements `Clones.fetch`: downloads artifacts and adds their commits to the clone."""
        absent = await self._stores.clones.missing_commits(spec, set(wants.values()))
        packs = [await self._fetch_pack(spec, sha) for sha in sorted(absent)]
        await self._stores.clones.add_packs(spec, wants, packs)

    def _registry(self, spec: RepositorySpec) -> ArtifactRegistry:
        account = self._accounts.account(spec.url, spec.project)
        return ArtifactRegistry(self._client, spec.url, account)

    async def _commit_for(
        self, spec: RepositorySpec, registry: ArtifactRegistry, digest: str
    ) -> str:
        """Returns the commit of a manifest; downloads an unknown artifact."""
        memo = await self._stores.memo.get(_memo_key(spec, digest))
        if memo is not None:
            return memo["sha"]
        sha = digest.removeprefix("sha256:")
        if self._refused.get((spec.id, sha)) is not None:
            return sha
        try:
            built = await self._build_commit(spec, registry, digest)
        except (Invalid, NotFound) as error:
            self._refused.put((spec.id, sha), f"{spec.url}@{digest}: {error.message}")
            return sha
        self._keep_pack(built)
        return built.sha

    async def _build_commit(
        self, spec: RepositorySpec, registry: ArtifactRegistry, digest: str
    ) -> BuiltCommit:
        """Downloads and unpacks an artifact. Raises Invalid, NotFound, Unavailable."""
        manifest = await registry.manifest(digest)
        repository = registry.repository
        text = commit_text(repository.host, repository.name, digest, manifest)
        layers = await registry.layers(manifest, self._max_bytes)
        built = await self._workers.artifact(text, layers)
        # The id of a commit is the digest of this content, so every replica can find it.
        await self._stores.content.put(f"sha256:{built.sha}", object_bytes(b"commit", built.data))
        await self._stores.memo.put(_memo_key(spec, digest), {"sha": built.sha})
        return built

    async def _fetch_pack(self, spec: RepositorySpec, sha: str) -> bytes:
        """Returns the pack of a commit. Raises CommitsRejected if no artifact has this commit."""
        if (pack := self._recent_packs.pop(sha, None)) is not None:
            return pack
        if (reason := self._refused.get((spec.id, sha))) is not None:
            raise CommitsRejected(reason)
        registry = self._registry(spec)
        digest = await self._find_digest(spec, sha)
        try:
            built = await self._build_commit(spec, registry, digest)
        except (Invalid, NotFound) as error:
            raise CommitsRejected(f"{spec.url}@{digest}: {error.message}") from error
        if built.sha != sha:
            raise CommitsRejected(f"{spec.url}@{digest} is not the artifact of commit {sha[:12]}")
        return built.pack

    async def _find_digest(self, spec: RepositorySpec, sha: str) -> str:
        """Returns the digest of the manifest of a commit; asks for the followed refs if no replica
        knows the commit. Raises CommitsRejected.
        """
        commit_object = await self._stores.content.get(f"sha256:{sha}")
        if commit_object is not None and (digest := digest_of_commit(commit_object)):
            return digest
        registry = self._registry(spec)
        for name in sorted(spec.refs):
            for ref in refs.candidates(name):
                artifact = refs.artifact_of(ref)
                digest = await _resolve_digest(registry, artifact) if artifact is not None else None
                if digest and await self._commit_for(spec, registry, digest) == sha:
                    return digest
        raise CommitsRejected(
            f"no followed tag or digest of {spec.url} is the artifact of commit {sha[:12]}"
        )

    def _keep_pack(self, built: BuiltCommit) -> None:
        """Keeps a pack for the fetch that follows."""
        self._recent_packs[built.sha] = built.pack
        while sum(map(len, self._recent_packs.values())) > _MAX_PACKS_BYTES:
            self._recent_packs.popitem(last=False)


async def _resolve_digest(registry: ArtifactRegistry, name: str) -> str | None:
    """Returns the digest of a tag, range or digest now; None if there is none."""
    if is_digest(name):
        return name
    if is_tag(name):
        return await registry.digest_of_tag(name)
    try:
        return await registry.digest_of_newest(name)
    except Invalid as error:
        # A malformed range must not stop the polls of other refs.
        if error.field != "version":
            raise
        return None


def _memo_key(spec: RepositorySpec, digest: str) -> str:
    fields = {"artifact of": spec.id, "url": spec.url, "digest": digest, "format": _FORMAT}
    return digest_of_json(fields)
