"""One bare clone on disk: pins, shallow boundaries, cleanup, packing."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from gitcache.mirror.runner import GitRunner, Stdin
from gitcache.mirror.transport.git_environment import environment

PINS = "refs/k/"
"""Prefix of the refs that pin commits."""
_LEAN = "lean"
_MAX_LOOSE = 2000
_MAX_PACKS = 20
_SECONDS = 120.0


def pin_refspecs(wants: Mapping[str, str]) -> list[str]:
    """Returns the refspecs that fetch commits and pin them (pin name to sha)."""
    return [f"+{sha}:{PINS}{pin}" for pin, sha in sorted(wants.items())]


class Clone:
    """A clone at `path`, which may not exist yet."""

    def __init__(self, path: Path, runner: GitRunner) -> None:
        self.path = path
        self._runner = runner

    def exists(self) -> bool:
        """True if the clone exists."""
        return self.path.exists()

    def is_lean(self) -> bool:
        """True for a lean clone: all folders, but files only on demand."""
        return (self.path / _LEAN).exists()

    def mark_lean(self) -> None:
        """Marks the clone as lean."""
        (self.path / _LEAN).touch()

    async def init(self, *, sha256: bool) -> None:
        """Creates an empty clone."""
        object_format = f"--object-format={'sha256' if sha256 else 'sha1'}"
        command = ["init", "--quiet", "--bare", "--template=", object_format, str(self.path)]
        await self._runner.run(command, environment(self.path.parent), seconds=_SECONDS)

    async def git(
        self,
        *arguments: str,
        stdin: Stdin = b"",
        seconds: float = _SECONDS,
        low_priority: bool = False,
    ) -> str:
        """Runs a local git command and returns its output. Raises GitError."""
        return await self._runner.run(
            [f"--git-dir={self.path}", *arguments],
            environment(self.path.parent),
            seconds=seconds,
            stdin=stdin,
            low_priority=low_priority,
        )

    def pins(self) -> dict[str, str]:
        """Maps pin names to object ids; refs are never packed, so each pin is a file."""
        pins = {}
        for path in (self.path / PINS).glob("*"):
            if not path.name.endswith(".lock"):
                pins[path.name] = path.read_text().strip()
        return pins

    async def pin(self, wants: Mapping[str, str]) -> None:
        """Pins objects by name. Raises GitError if an object is missing."""
        if all(self._is_loose(sha) for sha in wants.values()):
            self._write_pins(wants)
            return
        lines = [f"update {PINS}{pin} {sha}\n" for pin, sha in sorted(wants.items())]
        await self.git("update-ref", "--stdin", stdin="".join(lines).encode())

    def _is_loose(self, sha: str) -> bool:
        return os.path.exists(f"{self.path}/objects/{sha[:2]}/{sha[2:]}")

    def _write_pins(self, wants: Mapping[str, str]) -> None:
        """Writes pins as `git update-ref` does, without the milliseconds of a process."""
        folder = f"{self.path}/{PINS}"
        os.makedirs(folder, exist_ok=True)
        for pin, sha in wants.items():
            lock = f"{folder}{pin}.lock"
            with open(lock, "x") as file:
                try:
                    file.write(f"{sha}\n")
                    file.flush()
                    os.replace(lock, f"{folder}{pin}")
                except OSError:
                    # A lock left behind by a full disk would block this pin forever.
                    os.unlink(lock)
                    raise

    async def unpin(self, pins: Iterable[str]) -> None:
        """Removes pins."""
        lines = [f"delete {PINS}{pin}\n" for pin in pins]
        if lines:
            await self.git("update-ref", "--stdin", stdin="".join(lines).encode())

    async def index(self, pack: Stdin, *, seconds: float) -> None:
        """Adds a pack, which may refer to missing files. Raises GitError for a broken pack."""
        # git allows a missing .gitattributes only in a promisor's pack. Remove the mark afterwards,
        # or git would fetch missing objects by itself.
        command = ("-c", "remote.lean.promisor=true", "index-pack", "--promisor")
        options = ("--stdin", "--fix-thin", "--fsck-objects")
        output = await self.git(*command, *options, stdin=pack, seconds=seconds)
        name = output.split()[-1]
        (self.path / "objects" / "pack" / f"pack-{name}.promisor").unlink(missing_ok=True)

    async def unpack(self, pack: Stdin) -> None:
        """Adds a small pack as loose objects and checks all links. Raises GitError if broken."""
        await self.git("unpack-objects", "-q", "--strict", stdin=pack)

    def shallow_commits(self) -> list[str]:
        """Lists the commits whose parents are missing."""
        try:
            return (self.path / "shallow").read_text().split()
        except FileNotFoundError:
            return []

    def update_shallow(self, shallow: Iterable[str], unshallow: Iterable[str]) -> None:
        """Updates the shallow boundary atomically."""
        boundary = sorted((set(self.shallow_commits()) | set(shallow)) - set(unshallow))
        temporary = self.path / "shallow.lock"
        temporary.write_text("".join(f"{sha}\n" for sha in boundary))
        temporary.rename(self.path / "shallow")

    def is_scattered(self) -> bool:
        """True beyond 2,000 loose objects or 20 packs, when packing is worth it."""
        packs = len(list(self.path.glob("objects/pack/*.pack")))
        # One of the 256 folders is a sample of all: object ids are evenly distributed.
        loose = len(list(self.path.glob("objects/17/*"))) * 256
        return packs > _MAX_PACKS or loose > _MAX_LOOSE

    async def pack(self) -> None:
        """Packs all pinned objects and drops others that are older than one hour."""
        if self.is_lean():
            # Missing files would stop git's walk over reachable objects.
            await self.git("repack", "--geometric=2", "-d", "-q", low_priority=True)
        else:
            await self.git("repack", "-a", "-d", "-q", low_priority=True)
            await self.git("prune", "--expire=1.hour.ago", low_priority=True)

    def size(self) -> int:
        """Returns the size on disk, in bytes."""
        total = 0
        for folder, _, names in os.walk(self.path):
            for name in names:
                try:
                    total += os.lstat(os.path.join(folder, name)).st_size
                except OSError:
                    continue
        return total

    def sweep(self) -> None:
        """Removes locks and incomplete packs; requires that nothing else writes to the clone."""
        stale = [*self.path.glob("*.lock"), *(self.path / "refs").rglob("*.lock")]
        stale += self.path.glob("objects/pack/tmp_*")
        stale += self.path.glob("objects/tmp_*")
        stale += self.path.glob("objects/??/tmp_obj_*")
        for path in stale:
            path.unlink(missing_ok=True)
