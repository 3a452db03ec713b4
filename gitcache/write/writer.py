"""Makes commits from edits and pushes them: an isolated index, no checkout."""

import asyncio
import random
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from fleet.changes import Edit
from fleet.errors import Conflict, Forbidden, Invalid, NotFound
from fleet.runtime.clock import Clock
from fleet.source import RepositorySpec
from gitcache.domain import refs
from gitcache.domain.objects import CommitRecord
from gitcache.mirror.access import environment
from gitcache.mirror.mirror import Mirror
from gitcache.mirror.runner import GitError, GitRunner
from gitcache.ports import RefLister
from gitcache.write.changeset import Changes, Changeset

log = structlog.get_logger(__name__)

_PIN = "written"
"""Keeps the newest commit that was written to: the next one differs by little from it."""
_TRIES = 6
_SECONDS = 120.0
_MAX_MESSAGE = 16 << 10
_PERSON = re.compile(r"(?P<name>[^<>\x00-\x1f]{1,200}) <(?P<mail>[^<>\s\x00-\x1f]{1,200})>")
_RACED = re.compile(
    r"stale info|non-fast-forward|fetch first|cannot lock ref|failed to update ref"
    r"|reference already",
    re.IGNORECASE,
)
_DECLINED = re.compile(r"declined|protected branch|\[remote rejected\]", re.IGNORECASE)


class Writer:
    """Writes to repositories, through the clones that they are read from."""

    def __init__(self, mirror: Mirror, clock: Clock, *, lister: RefLister | None = None) -> None:
        self._mirror = mirror
        self._clock = clock
        self._lister = lister or mirror.lister

    async def commit(
        self,
        spec: RepositorySpec,
        branch: str,
        base: str,
        edits: Sequence[Edit],
        author: str,
        message: str,
    ) -> str | None:
        """Commit edits on top of a branch and push it; the sha, the tip's if nothing changes.

        A branch that does not exist begins at `base`, another one; None if that has it all
        already, so that no branch is made. `author` is `Name <mail>` and
        signs off. Should the branch move meanwhile, the edits are made again on its new tip.
        Conflict: it never stood still. Forbidden: the server declines. NotFound, Invalid,
        Unavailable.
        """
        person = _checked(author, message, branch, base)
        for attempt in range(_TRIES):
            tip, expected = await self._tip(spec, branch, base)
            sha = await self._make(spec, tip, edits, person, message, push=(branch, expected))
            if sha is not None:
                return sha if expected or sha != tip else None
            await self._clock.sleep(random.uniform(0, 0.1 * 2**attempt))
        raise Conflict(f"the branch {branch} moves all the time; the commit was not pushed")

    async def delete_branch(self, spec: RepositorySpec, branch: str, author: str) -> bool:
        """Delete a branch whose newest commit is of `author`; whether there is none now.

        One that somebody else has committed to stays. Forbidden: the server declines. Invalid,
        Unavailable.
        """
        ref = f"refs/heads/{_checked_branch(branch)}"
        tip = (await self._lister.list_refs(spec, [ref])).get(ref)
        if tip is None:
            return True
        record = await self._record(spec, tip)
        if record.commit.author != author.strip():
            return False
        clone = self._mirror.clones.path(spec)
        return await self._pushed(spec, clone, (ref, tip), f":{ref}")

    async def _tip(self, spec: RepositorySpec, branch: str, base: str) -> tuple[str, str]:
        """The commit to build on, and what the branch must still be when it is pushed."""
        names = [f"refs/heads/{branch}", f"refs/heads/{base}"]
        found = await self._lister.list_refs(spec, sorted(set(names)))
        tip = found.get(names[0], found.get(names[1]))
        if tip is None:
            raise NotFound(f"the repository has neither a branch {branch} nor {base}")
        return tip, found.get(names[0], "")

    async def _make(
        self,
        spec: RepositorySpec,
        tip: str,
        edits: Sequence[Edit],
        person: Mapping[str, str],
        message: str,
        *,
        push: tuple[str, str],
    ) -> str | None:
        """The pushed commit; None: someone else was quicker."""
        record = await self._record(spec, tip)
        changes = await Changes(self._mirror.reader, spec, record.tree).work_out(edits)
        clone = self._mirror.clones.path(spec)
        place = clone.parent / f"tmp-{uuid.uuid4().hex}"
        try:
            work = _Workbench(self._mirror.runner, clone, place, person)
            tree = await work.tree(record.tree, changes)
            if tree == record.tree:
                return tip
            sha = await work.commit(tree, tip, f"{message.rstrip()}\n\n{_sign_off(person)}\n")
            ref, expected = f"refs/heads/{push[0]}", push[1]
            lease, what = (ref, expected), f"{sha}:{ref}"
            return sha if await self._pushed(spec, clone, lease, what, work.objects) else None
        finally:
            await asyncio.to_thread(shutil.rmtree, place, True)

    async def _record(self, spec: RepositorySpec, sha: str) -> CommitRecord:
        """A commit that the server has; fetched, if the copy has it not."""
        record = await self._mirror.reader.commit(spec, sha)
        if record is None:
            await self._mirror.clones.fetch(spec, {_PIN: sha})
            record = await self._mirror.reader.commit(spec, sha)
        if record is None:
            raise Invalid(f"{sha} is not a commit")
        return record

    async def _pushed(
        self,
        spec: RepositorySpec,
        clone: Path,
        lease: tuple[str, str],
        what: str,
        env: Mapping[str, str] | None = None,
    ) -> bool:
        """Push a refspec; False: the ref of the lease is no longer what it says."""

        def arguments(url: str) -> list[str]:
            held = f"--force-with-lease={lease[0]}:{lease[1]}"
            options = ["push", "--quiet", "--no-verify", held]
            return [f"--git-dir={clone}", *options, "--", url, what]

        try:
            await self._mirror.git.run(spec, arguments, seconds=_SECONDS, env=env or {})
        except GitError as error:
            if _RACED.search(error.message):
                log.info("branch moved while a commit was made", repository=spec.id)
                return False
            if _DECLINED.search(error.message):
                raise Forbidden(f"the server declines the commit: {error.message}") from error
            raise
        return True


class _Workbench:
    """Objects and an index of its own in `place`, on top of what a clone has."""

    def __init__(
        self, runner: GitRunner, clone: Path, place: Path, person: Mapping[str, str]
    ) -> None:
        self.clone = clone
        self._runner = runner
        self._place = place
        self._person = person
        self.objects = {
            "GIT_OBJECT_DIRECTORY": str(place / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(clone / "objects"),
            "GIT_INDEX_FILE": str(place / "index"),
        }

    async def tree(self, base: str, changes: Changeset) -> str:
        """The id of the tree with the changes made."""
        await asyncio.to_thread((self._place / "objects").mkdir, parents=True)
        await self._run("read-tree", base)
        lines = [f"0 {'0' * len(base)}\t{path}" for path in sorted(changes.gone)]
        lines += [f"{entry.mode:06o} {entry.id}\t{path}" for path, entry in changes.copied.items()]
        for path, content in changes.contents.items():
            blob = await self._blob(content)
            lines.append(f"{changes.modes[path]:06o} {blob}\t{path}")
        await self._run(
            "update-index",
            "-z",
            "--index-info",
            stdin="".join(f"{line}\0" for line in lines).encode(),
        )
        return await self._run("write-tree", "--missing-ok")

    async def commit(self, tree: str, parent: str, message: str) -> str:
        """The id of the commit."""
        return await self._run("commit-tree", tree, "-p", parent, stdin=message.encode())

    async def _blob(self, content: bytes) -> str:
        path = self._place / "content"
        await asyncio.to_thread(path.write_bytes, content)
        return await self._run("hash-object", "-w", "--stdin", stdin=path)

    async def _run(self, *arguments: str, stdin: bytes | Path = b"") -> str:
        out = await self._runner.run(
            [f"--git-dir={self.clone}", *arguments],
            {**environment(self.clone.parent), **self.objects, **self._person},
            seconds=_SECONDS,
            stdin=stdin,
        )
        return out.strip()


def _checked(author: str, message: str, branch: str, base: str) -> dict[str, str]:
    """Who commits, as git's environment."""
    match = _PERSON.fullmatch(author.strip())
    if match is None:
        raise Invalid("must be `Name <mail>`", field="author")
    if not message.strip() or len(message) > _MAX_MESSAGE or "\0" in message:
        raise Invalid(f"must be 1 to {_MAX_MESSAGE} characters", field="message")
    for checked in (branch, base):
        _checked_branch(checked)
    name, mail = match["name"], match["mail"]
    return {
        f"GIT_{role}_{what}": text
        for role in ("AUTHOR", "COMMITTER")
        for what, text in (("NAME", name), ("EMAIL", mail))
    }


def _checked_branch(name: str) -> str:
    if not refs.is_name(name) or refs.is_sha(name) or name.startswith("refs/"):
        raise Invalid(f"{name[:80]!r} is no name of a branch", field="branch")
    return name


def _sign_off(person: Mapping[str, str]) -> str:
    return f"Signed-off-by: {person['GIT_AUTHOR_NAME']} <{person['GIT_AUTHOR_EMAIL']}>"
