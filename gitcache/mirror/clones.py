"""Bare clones of depth 1, one per repository record, without a work tree, tips pinned by refs.

A tip without a ref would make git download the whole snapshot again at the next fetch, so
every fetched commit is pinned under `refs/k/<pin>`.
"""

import asyncio
import hashlib
import re
import shutil
import uuid
from collections.abc import Collection, Mapping
from pathlib import Path

import structlog

from fleet.errors import Unavailable
from fleet.remotes import parse_remote
from fleet.source import RepositorySpec
from gitcache.mirror.access import Access, environment, secrets_of
from gitcache.mirror.admission import Admission
from gitcache.mirror.runner import GitError, GitRunner
from gitcache.ports import ASKED_PIN, Rejected

log = structlog.get_logger(__name__)

_PINS = "refs/k/"
_TEMPORARY = "tmp-"
_MAX_LOOSE = 2000
_MAX_PACKS = 20
_LOCAL_SECONDS = 120.0
_FULL = re.compile(r"No space left|quota exceeded", re.IGNORECASE)
_REJECTED = re.compile(r"not our ref|fsck error|fsck failed")
_LOCKED = re.compile(r"\.lock.*File exists|unable to lock|cannot lock ref", re.IGNORECASE)
_CORRUPT = re.compile(
    r"corrupt|bad object|inflate|unable to read|missing (blob|tree|commit)|not a git repository"
    r"|bad (pack|index)|is garbage|unresolved delta|invalid sha1 pointer|index-pack failed",
    re.IGNORECASE,
)


class GitClones:
    """The clones below one folder, named by repository id and URL: two tenants share none."""

    def __init__(
        self,
        root: Path,
        runner: GitRunner,
        access: Access,
        admission: Admission,
        *,
        seconds: float,
    ) -> None:
        self._root = root
        self._runner = runner
        self._access = access
        self._admission = admission
        self._seconds = seconds

    def open(self) -> None:
        """Make the folder and sweep what a killed process left behind."""
        self._root.mkdir(parents=True, exist_ok=True)
        for path in self._root.glob(f"{_TEMPORARY}*"):
            shutil.rmtree(path, ignore_errors=True)
        for clone in self._root.glob("*.git"):
            sweep(clone)

    def path(self, spec: RepositorySpec) -> Path:
        """Where the clone of a repository is, or will be."""
        name = hashlib.sha256(f"{spec.id}\0{spec.url}".encode()).hexdigest()
        return self._root / f"{name[:32]}.git"

    async def fetch(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        """As `Clones.fetch`: one git process for all wanted commits, by exact sha."""
        path = self.path(spec)
        if not path.exists():
            await self._clone(spec, wants)
            return
        try:
            await self._fetch_into(path, spec, wants)
        except GitError as error:
            await self._recover(error, path, spec, wants)

    async def pins(self, spec: RepositorySpec) -> Mapping[str, str]:
        """As `Clones.pins`."""
        path = self.path(spec)
        if not path.exists():
            return {}
        form = "--format=%(objectname) %(refname)"
        text = await self._local(path, "for-each-ref", form, _PINS)
        pairs = (line.split(" ", 1) for line in text.splitlines())
        return {name.removeprefix(_PINS): sha for sha, name in pairs}

    async def maintain(self, spec: RepositorySpec) -> None:
        """As `Clones.maintain`: repack beyond 2,000 loose objects or 20 packs."""
        path = self.path(spec)
        if path.exists() and await asyncio.to_thread(_is_scattered, path):
            await self._unpin_asked(path)
            await self._local(path, "repack", "-a", "-d", "-q")
            await self._local(path, "prune", "--expire=1.hour.ago")
            log.info("clone packed", repository=spec.id)

    async def keep_only(self, specs: Collection[RepositorySpec]) -> int:
        """As `Clones.keep_only`."""
        kept = {self.path(spec) for spec in specs}
        gone = [path for path in self._root.glob("*.git") if path not in kept]
        for path in gone:
            await asyncio.to_thread(shutil.rmtree, path, True)
        return len(gone)

    async def _clone(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        """Clone beside the place and move it there when complete."""
        temporary = self._root / f"{_TEMPORARY}{uuid.uuid4().hex}"
        sha256 = any(len(sha) == 64 for sha in wants.values())
        try:
            await self._runner.run(
                [
                    "init",
                    "--quiet",
                    "--bare",
                    "--template=",
                    f"--object-format={'sha256' if sha256 else 'sha1'}",
                    str(temporary),
                ],
                environment(self._root),
                seconds=_LOCAL_SECONDS,
            )
            await self._fetch_into(temporary, spec, wants)
            await asyncio.to_thread(self._replace, temporary, self.path(spec))
        except GitError as error:
            raise _named(error) from error
        finally:
            await asyncio.to_thread(shutil.rmtree, temporary, True)

    def _replace(self, new: Path, place: Path) -> None:
        old = self._root / f"{_TEMPORARY}{uuid.uuid4().hex}"
        if place.exists():
            place.rename(old)
        new.rename(place)
        shutil.rmtree(old, ignore_errors=True)

    async def _fetch_into(self, path: Path, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        remote = parse_remote(spec.url)
        addresses = await self._admission.addresses(remote)
        with self._access.environment(remote, spec.credentials, addresses) as env:
            await self._runner.run(
                [
                    f"--git-dir={path}",
                    "fetch",
                    "--quiet",
                    "--no-tags",
                    "--no-write-fetch-head",
                    "--no-auto-maintenance",
                    "--depth=1",
                    "--",
                    remote.text,
                    *(f"+{sha}:{_PINS}{pin}" for pin, sha in sorted(wants.items())),
                ],
                env,
                seconds=self._seconds,
                secrets=secrets_of(spec.credentials),
            )

    async def _recover(
        self, error: GitError, path: Path, spec: RepositorySpec, wants: Mapping[str, str]
    ) -> None:
        """Try once more where the cause is known to be on our side."""
        if _REJECTED.search(error.message):
            raise _named(error) from error
        if _LOCKED.search(error.message):
            await asyncio.to_thread(sweep, path)
            await self._fetch_into(path, spec, wants)
        elif _CORRUPT.search(error.message) and "early EOF" not in error.message:
            log.warning("clone is damaged, cloning anew", repository=spec.id)
            await self._clone(spec, wants)
        else:
            raise _named(error) from error

    async def _unpin_asked(self, path: Path) -> None:
        """Let go of commits that were fetched on request; they can be fetched again."""
        text = await self._local(
            path, "for-each-ref", "--format=%(refname)", f"{_PINS}{ASKED_PIN}*"
        )
        for name in text.split():
            await self._local(path, "update-ref", "-d", name)

    async def _local(self, path: Path, *arguments: str) -> str:
        return await self._runner.run(
            [f"--git-dir={path}", *arguments], environment(self._root), seconds=_LOCAL_SECONDS
        )


def sweep(clone: Path) -> None:
    """Remove locks and half-written packs; nothing else may be writing to the clone."""
    stale = [*clone.glob("*.lock"), *(clone / "refs").rglob("*.lock")]
    stale += [*(clone / "objects" / "pack").glob("tmp_*"), *clone.glob("objects/tmp_*")]
    for path in stale:
        path.unlink(missing_ok=True)


def _is_scattered(clone: Path) -> bool:
    packs = len(list(clone.glob("objects/pack/*.pack")))
    # One of the 256 folders stands for all: object names are evenly spread.
    loose = len(list(clone.glob("objects/17/*"))) * 256
    return packs > _MAX_PACKS or loose > _MAX_LOOSE


def _named(error: GitError) -> Unavailable:
    if _FULL.search(error.message):
        return Unavailable("the disk of the git cache is full; nothing new can be fetched")
    return Rejected(error.message) if _REJECTED.search(error.message) else error
