"""Makes and pushes commits from edits, with an isolated index and no checkout."""

import asyncio
import random
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from core.errors import Conflict, Forbidden, Invalid, NotFound
from core.runtime.clock import Clock
from core.spec.edits import Edit
from core.spec.source import RepositorySpec
from gitcache.domain import refs
from gitcache.domain.commits import CommitRecord
from gitcache.mirror.mirror import GitMirror
from gitcache.mirror.runner import GitError, GitRunner
from gitcache.mirror.transport.git_environment import environment
from gitcache.ports import RefLister
from gitcache.write.changeset import Changeset, ChangesetBuilder

log = structlog.get_logger(__name__)

_PIN = "written"
"""Pin of the newest base commit, so that the next fetch is small."""
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


class CommitWriter:
    """Writes to repositories through their clones."""

    def __init__(self, mirror: GitMirror, clock: Clock, *, lister: RefLister | None = None) -> None:
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
        """Commits edits on top of a branch, pushes it and returns the sha.

        Without changes, returns the sha of the tip. A missing branch starts at the branch `base`;
        returns None, without a new branch, if the edits change nothing there. `author` is
        `Name <email>` and signs off. If the branch moves meanwhile, the edits are applied to its
        new tip. Raises Conflict if it keeps moving, Forbidden if the server declines, NotFound,
        Invalid, Unavailable.
        """
        person = _author_environment(author, message, branch, base)
        for attempt in range(_TRIES):
            tip, expected = await self._tip_and_lease(spec, branch, base)
            sha = await self._push_commit(
                spec, tip, edits, person, message, push=(branch, expected)
            )
            if sha is not None:
                return sha if expected or sha != tip else None
            await self._clock.sleep(random.uniform(0, 0.1 * 2**attempt))
        raise Conflict(f"the branch {branch} kept moving; the commit was not pushed, retry later")

    async def delete_branch(self, spec: RepositorySpec, branch: str, author: str) -> bool:
        """Deletes a branch whose newest commit is by `author`; returns True if it is gone.

        Keeps a branch with a newer commit by another author. Raises Forbidden if the server
        declines, Invalid, Unavailable.
        """
        ref = f"refs/heads/{_check_branch(branch)}"
        tip = (await self._lister.list_refs(spec, [ref])).get(ref)
        if tip is None:
            return True
        record = await self._commit_record(spec, tip)
        if record.commit.author != author.strip():
            return False
        clone = self._mirror.clones.path(spec)
        return await self._push(spec, clone, (ref, tip), f":{ref}")

    async def _tip_and_lease(self, spec: RepositorySpec, branch: str, base: str) -> tuple[str, str]:
        """Returns the base commit, and the sha that the branch must still have at the push."""
        names = [f"refs/heads/{branch}", f"refs/heads/{base}"]
        listed = await self._lister.list_refs(spec, sorted(set(names)))
        tip = listed.get(names[0], listed.get(names[1]))
        if tip is None:
            raise NotFound(f"the repository has neither a branch {branch} nor {base}")
        return tip, listed.get(names[0], "")

    async def _push_commit(
        self,
        spec: RepositorySpec,
        tip: str,
        edits: Sequence[Edit],
        person: Mapping[str, str],
        message: str,
        *,
        push: tuple[str, str],
    ) -> str | None:
        """Makes and pushes a commit; returns None if the branch has moved meanwhile."""
        record = await self._commit_record(spec, tip)
        changes = await ChangesetBuilder(self._mirror.reader, spec, record.tree).apply_edits(edits)
        clone = self._mirror.clones.path(spec)
        scratch = clone.parent / f"tmp-{uuid.uuid4().hex}"
        try:
            index = _IsolatedIndex(self._mirror.runner, clone, scratch, person)
            tree = await index.tree(record.tree, changes)
            if tree == record.tree:
                return tip
            sha = await index.commit(tree, tip, f"{message.rstrip()}\n\n{_sign_off_line(person)}\n")
            ref, expected = f"refs/heads/{push[0]}", push[1]
            lease, refspec = (ref, expected), f"{sha}:{ref}"
            return sha if await self._push(spec, clone, lease, refspec, index.objects) else None
        finally:
            await asyncio.to_thread(shutil.rmtree, scratch, True)

    async def _commit_record(self, spec: RepositorySpec, sha: str) -> CommitRecord:
        """Returns a commit of the server; fetches it if the copy lacks it."""
        record = await self._mirror.reader.commit(spec, sha)
        if record is None:
            await self._mirror.clones.fetch(spec, {_PIN: sha})
            record = await self._mirror.reader.commit(spec, sha)
        if record is None:
            raise Invalid(f"{sha} is not a commit")
        return record

    async def _push(
        self,
        spec: RepositorySpec,
        clone: Path,
        lease: tuple[str, str],
        refspec: str,
        env: Mapping[str, str] | None = None,
    ) -> bool:
        """Pushes a refspec; returns False if the ref differs from the lease."""

        def arguments(url: str) -> list[str]:
            lease_option = f"--force-with-lease={lease[0]}:{lease[1]}"
            options = ["push", "--quiet", "--no-verify", lease_option]
            return [f"--git-dir={clone}", *options, "--", url, refspec]

        try:
            await self._mirror.git.run(spec, arguments, seconds=_SECONDS, env=env or {})
        except GitError as error:
            if _RACED.search(error.message):
                log.info("branch moved during commit", repository=spec.id)
                return False
            if _DECLINED.search(error.message):
                raise Forbidden(f"the server declined the push: {error.message}") from error
            raise
        return True


class _IsolatedIndex:
    """Separate objects and index in `place`, on top of a clone."""

    def __init__(
        self, runner: GitRunner, clone: Path, folder: Path, person: Mapping[str, str]
    ) -> None:
        self.clone = clone
        self._runner = runner
        self._folder = folder
        self._person = person
        self.objects = {
            "GIT_OBJECT_DIRECTORY": str(folder / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(clone / "objects"),
            "GIT_INDEX_FILE": str(folder / "index"),
        }

    async def tree(self, base: str, changes: Changeset) -> str:
        """Writes the changed tree and returns its id."""
        await asyncio.to_thread((self._folder / "objects").mkdir, parents=True)
        await self._run("read-tree", base)
        lines = [f"0 {'0' * len(base)}\t{path}" for path in sorted(changes.deleted)]
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
        """Writes a commit and returns its id."""
        return await self._run("commit-tree", tree, "-p", parent, stdin=message.encode())

    async def _blob(self, content: bytes) -> str:
        path = self._folder / "content"
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


def _author_environment(author: str, message: str, branch: str, base: str) -> dict[str, str]:
    """Validates author, message and branches; returns the author as git's environment."""
    match = _PERSON.fullmatch(author.strip())
    if match is None:
        raise Invalid("must be `Name <email>`", field="author")
    if not message.strip() or len(message) > _MAX_MESSAGE or "\0" in message:
        raise Invalid(f"must be 1 to {_MAX_MESSAGE} characters", field="message")
    for branch_name in (branch, base):
        _check_branch(branch_name)
    name, mail = match["name"], match["mail"]
    return {
        f"GIT_{role}_{what}": text
        for role in ("AUTHOR", "COMMITTER")
        for what, text in (("NAME", name), ("EMAIL", mail))
    }


def _check_branch(name: str) -> str:
    if not refs.is_name(name) or refs.is_sha(name) or name.startswith("refs/"):
        raise Invalid(f"{name[:80]!r} is not a branch name", field="branch")
    return name


def _sign_off_line(person: Mapping[str, str]) -> str:
    return f"Signed-off-by: {person['GIT_AUTHOR_NAME']} <{person['GIT_AUTHOR_EMAIL']}>"
