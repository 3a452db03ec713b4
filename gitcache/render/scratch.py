"""Files on a worker's scratch disk, and tools that are run on them."""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from fleet.bundle import MAX_BUNDLE_BYTES
from fleet.errors import Invalid
from gitcache.render import sandbox

_MAX_STDERR = 2000


def materialise(top: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder that does not exist yet."""
    top.mkdir()
    made = set()
    for path, data in files.items():
        target = top / path
        if target.parent not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            made.add(target.parent)
        target.write_bytes(data)


def run_tool(command: Sequence[str], home: Path, folder: Path) -> tuple[int, bytes, bytes]:
    """Run a tool in `folder`: exit code, output and the beginning of its errors.

    `home` takes what the tool writes. Its time is this process's: a worker that overruns is killed
    with everything that it has started. Invalid: more output than a bundle may have, or all of the
    processor's time used up.
    """
    output, errors = home / "output", home / "errors"
    with output.open("wb") as out, errors.open("wb") as err:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=folder,
            env=_environment(home),
            preexec_fn=sandbox.raise_memory_limit,
            check=False,
        )
    if done.returncode == -signal.SIGXCPU:
        raise Invalid(f"{Path(command[0]).name} has used up the processor time of a render")
    if output.stat().st_size > MAX_BUNDLE_BYTES:
        raise Invalid(f"{Path(command[0]).name} gives more than {MAX_BUNDLE_BYTES:,} bytes")
    with errors.open("rb") as file:
        return done.returncode, output.read_bytes(), file.read(_MAX_STDERR)


def _environment(home: Path) -> dict[str, str]:
    """No PATH: kustomize would find git there and fetch remote bases."""
    return {"HOME": str(home), "TMPDIR": str(home), "PATH": str(home / "nothing"), "LC_ALL": "C"}
