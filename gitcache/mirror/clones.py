"""Bare clones of depth 1, one per repository record, with tips pinned by refs.

Without a ref for the tip, git would download the whole snapshot again at the next fetch. So
every fetched commit is pinned under `refs/k/<pin>`.
"""

import asyncio
import hashlib
import re
import shutil
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import structlog

from core.errors import Unavailable
from core.identity import RepositoryId
from core.spec.source import RepositorySpec
from gitcache.mirror.clone import Clone, pin_refspecs
from gitcache.mirror.disk import Disk
from gitcache.mirror.lean_fetch import LeanFetch
from gitcache.mirror.metrics import GitMetrics
from gitcache.mirror.packs import PackUnavailable
from gitcache.mirror.quick_fetch import QuickFetch
from gitcache.mirror.remote_git import RemoteGit
from gitcache.mirror.runner import GitError, GitRunner
from gitcache.ports import ON_DEMAND_PIN_PREFIX, CommitsRejected

log = structlog.get_logger(__name__)

_TEMPORARY = "tmp-"
_DISK_FULL = re.compile(r"No space left|quota exceeded|File too large|signal 25\b", re.IGNORECASE)
_REJECTED = re.compile(r"not our ref|fsck error|fsck failed|\berror in (object|tree|commit|tag)\b")
_TOO_LARGE = re.compile(r"Out of memory|cannot allocate memory", re.IGNORECASE)
_TIPS_ONLY = re.compile(r"does not allow request for unadvertised object", re.IGNORECASE)
_LOCKED = re.compile(r"\.lock.*File exists|unable to lock|cannot lock ref", re.IGNORECASE)
_CORRUPT = re.compile(
    r"corrupt|bad object|inflate|unable to read|missing (blob|tree|commit)|not a git repository"
    r"|bad (pack|index)|is garbage|unresolved delta|invalid sha1 pointer|index-pack failed"
    r"|not a valid object|unpack failed|cannot be used|nonexistent object|loose object"
    r"|requires a git repository",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class FetchMethods:
    """Fetch methods: git itself, and faster ones."""

    git: RemoteGit
    quick: QuickFetch
    lean: LeanFetch


class GitClones:
    """The clones in one folder, named by repository id and URL, so that tenants share none."""

    def __init__(
        self,
        root: Path,
        runner: GitRunner,
        methods: FetchMethods,
        disk: Disk,
        meters: GitMetrics,
        *,
        seconds: float,
    ) -> None:
        self._root = root
        self._runner = runner
        self._methods = methods
        self._disk = disk
        self._meters = meters
        self._seconds = seconds

    def open(self) -> None:
        """Creates the folder and removes the leftovers of a killed process."""
        self._root.mkdir(parents=True, exist_ok=True)
        for path in self._root.glob(f"{_TEMPORARY}*"):
            shutil.rmtree(path, ignore_errors=True)
        for path in self._root.glob("*.git"):
            Clone(path, self._runner).sweep()

    def path(self, spec: RepositorySpec) -> Path:
        """Path of a repository's clone, which may not exist yet."""
        return _clone_path(self._root, spec.id, spec.url)

    async def fetch(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        """Implements `Clones.fetch` with the fastest method that works."""
        clone = self.clone(spec)
        if not clone.exists():
            with self._meters.measure_fetch("clone"):
                await self._create(spec, wants)
        elif not await self._try_quick_fetch(spec, clone, wants):
            with self._meters.measure_fetch("lean" if clone.is_lean() else "git"):
                await self._fetch_or_recover(spec, clone, wants)

    async def missing_commits(self, spec: RepositorySpec, commits: Collection[str]) -> set[str]:
        """Returns the commits that a clone lacks; all of them if it is damaged."""
        clone = self.clone(spec)
        if not clone.exists():
            return set(commits)
        object_ids = "".join(f"{sha}\n" for sha in commits).encode()
        try:
            output = await clone.git("cat-file", "--batch-check", stdin=object_ids)
        except GitError:
            return set(commits)
        return {line.split()[0] for line in output.splitlines() if line.endswith(" missing")}

    async def add_packs(
        self, spec: RepositorySpec, wants: Mapping[str, str], packs: Collection[bytes]
    ) -> None:
        """Adds complete commits from packs and pins them. Raises like `fetch`."""
        clone = self.clone(spec)
        with self._meters.measure_fetch("artifact"):
            try:
                if clone.exists():
                    await self._index_packs(clone, wants, packs)
                    return
            except GitError as error:
                if not _CORRUPT.search(error.message) or _REJECTED.search(error.message):
                    raise _classify_error(error) from error
                log.warning("clone damaged, making it again", repository=spec.id)
            await self._create(spec, wants, packs)

    async def pin(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        """Implements `Clones.pin`."""
        await self.clone(spec).pin(wants)

    async def complete(self, spec: RepositorySpec, blobs: Collection[str]) -> None:
        """Implements `Clones.complete`; needed only for lean clones."""
        clone = self.clone(spec)
        if clone.is_lean():
            try:
                with self._meters.measure_fetch("files"):
                    await self._methods.lean.complete(spec, clone, blobs)
            except GitError as error:
                raise _classify_error(error) from error

    async def graft(self, spec: RepositorySpec, other: RepositorySpec, sha: str) -> None:
        """Implements `Clones.graft`."""
        clone = self.clone(spec)
        try:
            with self._meters.measure_fetch("graft"):
                await self._git_fetch(other, clone, {f"{ON_DEMAND_PIN_PREFIX}{sha}": sha})
        except GitError as error:
            raise _classify_error(error) from error

    async def pins(self, spec: RepositorySpec) -> Mapping[str, str]:
        """Implements `Clones.pins`."""
        clone = self.clone(spec)
        return await asyncio.to_thread(clone.pins) if clone.exists() else {}

    async def maintain(self, spec: RepositorySpec) -> None:
        """Implements `Clones.maintain`: packs scattered objects."""
        clone = self.clone(spec)
        if clone.exists() and await asyncio.to_thread(clone.is_scattered):
            pins = await asyncio.to_thread(clone.pins)
            on_demand = [pin for pin in pins if pin.startswith(ON_DEMAND_PIN_PREFIX)]
            # These commits were fetched on demand and can be fetched again.
            await clone.unpin(on_demand)
            await clone.pack()
            log.info("clone packed", repository=spec.id)

    async def size(self, spec: RepositorySpec) -> int | None:
        """Implements `Clones.size`."""
        clone = self.clone(spec)
        return await asyncio.to_thread(clone.size) if clone.exists() else None

    async def keep_only(self, specs: Collection[RepositorySpec]) -> int:
        """Implements `Clones.keep_only`."""
        followed = {self.path(spec) for spec in specs}
        unused = [path for path in self._root.glob("*.git") if path not in followed]
        for path in unused:
            await asyncio.to_thread(shutil.rmtree, path, True)
        return len(unused)

    def is_lean(self, spec: RepositorySpec) -> bool:
        """True if the clone has only the files that were requested."""
        return self.clone(spec).is_lean()

    def clone(self, spec: RepositorySpec) -> Clone:
        """Returns the clone of a repository, which may not exist yet."""
        return Clone(self.path(spec), self._runner)

    async def _create(
        self,
        spec: RepositorySpec,
        wants: Mapping[str, str],
        packs: Collection[bytes] | None = None,
    ) -> None:
        """Clones to a temporary folder and moves the complete clone to its path.

        With `packs`, the clone gets them instead of a server's answer.
        """
        await self._disk.check_space()
        temporary = Clone(self._root / f"{_TEMPORARY}{uuid.uuid4().hex}", self._runner)
        try:
            if packs is None:
                await self._fill(spec, temporary, wants)
            else:
                await temporary.init(sha256=True)
                await self._index_packs(temporary, wants, packs)
            await asyncio.to_thread(self._replace, temporary.path, self.path(spec))
        except GitError as error:
            raise _classify_error(error) from error
        finally:
            await asyncio.to_thread(shutil.rmtree, temporary.path, True)

    async def _index_packs(
        self, clone: Clone, wants: Mapping[str, str], packs: Collection[bytes]
    ) -> None:
        for pack in packs:
            await clone.index(pack, seconds=self._seconds)
        await clone.pin(wants)

    async def _fill(self, spec: RepositorySpec, clone: Clone, wants: Mapping[str, str]) -> None:
        sha256 = any(len(sha) == 64 for sha in wants.values())
        await clone.init(sha256=sha256)
        try:
            if await self._methods.lean.create(spec, clone, wants):
                return
        except GitError as error:
            log.info("lean clone failed", repository=spec.id, reason=error.message)
        await asyncio.to_thread(shutil.rmtree, clone.path, True)
        await clone.init(sha256=sha256)
        try:
            await self._git_fetch(spec, clone, wants)
        except GitError as error:
            await self._fetch_all_history(error, spec, clone, wants)

    def _replace(self, new: Path, path: Path) -> None:
        old = self._root / f"{_TEMPORARY}{uuid.uuid4().hex}"
        if path.exists():
            path.rename(old)
        new.rename(path)
        shutil.rmtree(old, ignore_errors=True)

    async def _try_quick_fetch(
        self, spec: RepositorySpec, clone: Clone, wants: Mapping[str, str]
    ) -> bool:
        with self._meters.measure_fetch("quick") as outcome:
            fetched = await self._methods.quick.fetch(spec, clone, wants)
            if not fetched:
                outcome.result = "unfit"
        return fetched

    async def _fetch_or_recover(
        self, spec: RepositorySpec, clone: Clone, wants: Mapping[str, str]
    ) -> None:
        if clone.is_lean():
            await self._fetch_lean(spec, clone, wants)
            return
        try:
            await self._git_fetch(spec, clone, wants)
        except GitError as error:
            await self._recover(error, spec, clone, wants)

    async def _fetch_lean(
        self, spec: RepositorySpec, clone: Clone, wants: Mapping[str, str]
    ) -> None:
        try:
            await self._methods.lean.fetch(spec, clone, wants)
        except (PackUnavailable, GitError) as error:
            if isinstance(error, GitError) and _DISK_FULL.search(error.message):
                raise _classify_error(error) from error
            log.warning("cloning again", repository=spec.id, reason=str(error))
            await self._create(spec, wants)

    async def _git_fetch(
        self, spec: RepositorySpec, clone: Clone, wants: Mapping[str, str]
    ) -> None:
        await self._methods.git.fetch(
            spec, clone.path, pin_refspecs(wants), "--depth=1", seconds=self._seconds
        )

    async def _recover(
        self, error: GitError, spec: RepositorySpec, clone: Clone, wants: Mapping[str, str]
    ) -> None:
        """Retries once if the cause is a known local problem."""
        if any(pattern.search(error.message) for pattern in (_REJECTED, _DISK_FULL, _TOO_LARGE)):
            raise _classify_error(error) from error
        if _LOCKED.search(error.message):
            await asyncio.to_thread(clone.sweep)
            await self._git_fetch(spec, clone, wants)
        elif _CORRUPT.search(error.message) and "early EOF" not in error.message:
            log.warning("clone damaged, cloning again", repository=spec.id)
            await self._create(spec, wants)
        else:
            await self._fetch_all_history(error, spec, clone, wants)

    async def _fetch_all_history(
        self, error: GitError, spec: RepositorySpec, clone: Clone, wants: Mapping[str, str]
    ) -> None:
        """Fetches all history once from old servers, which serve only the tips of refs."""
        if not _TIPS_ONLY.search(error.message):
            raise _classify_error(error) from error

        depth = ["--unshallow"] if clone.shallow_commits() else []
        refs = ["+refs/heads/*:refs/h/heads/*", "+refs/tags/*:refs/h/tags/*"]
        try:
            await self._methods.git.fetch(spec, clone.path, refs, *depth, seconds=self._seconds)
            await clone.pin(wants)
        except GitError as failure:
            if "nonexistent object" in failure.message or "not a valid" in failure.message:
                raise CommitsRejected(
                    "no branch or tag of the server contains this commit"
                ) from failure
            raise _classify_error(failure) from failure


@lru_cache(4096)
def _clone_path(root: Path, repository_id: RepositoryId, url: str) -> Path:
    """Cached, because each read of an object needs it."""
    name = hashlib.sha256(f"{repository_id}\0{url}".encode()).hexdigest()
    return root / f"{name[:32]}.git"


def _classify_error(error: GitError) -> Unavailable:
    if _DISK_FULL.search(error.message):
        return Unavailable(
            "the disk of the git cache is full: cannot fetch; free or add disk space"
        )
    if _TOO_LARGE.search(error.message):
        return CommitsRejected(
            "unpacking its pack needs more than git.fetch.memory; it contains a huge file"
        )
    return CommitsRejected(error.message) if _REJECTED.search(error.message) else error
