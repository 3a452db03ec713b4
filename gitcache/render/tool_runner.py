"""Writes files to a worker's scratch disk and runs tools on them."""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from core.errors import Invalid
from core.spec.bundle import MAX_BUNDLE_BYTES
from gitcache.render import sandbox

_MAX_STDERR = 2000


def write_files(top: Path, files: Mapping[str, bytes]) -> None:
    """Writes files to a new folder."""
    top.mkdir()
    created = set()
    for path, data in files.items():
        target = top / path
        if target.parent not in created:
            target.parent.mkdir(parents=True, exist_ok=True)
            created.add(target.parent)
        target.write_bytes(data)


def run_tool(command: Sequence[str], home: Path, folder: Path) -> tuple[int, bytes, bytes]:
    """Runs a tool in `folder`; returns exit code, output and the beginning of its errors.

    `home` receives the tool's files. The tool shares the time limit of this worker, which is
    killed with its children. Raises Invalid beyond the CPU time or the size of a bundle.
    """
    output, errors = home / "output", home / "errors"
    with output.open("wb") as out, errors.open("wb") as err:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=folder,
            env=_environment(home),
            preexec_fn=sandbox.raise_memory_limit,
            check=False,
        )
    if result.returncode == -signal.SIGXCPU:
        raise Invalid(f"{Path(command[0]).name} exceeded the CPU time of a render")
    if output.stat().st_size > MAX_BUNDLE_BYTES:
        raise Invalid(f"{Path(command[0]).name} wrote more than {MAX_BUNDLE_BYTES:,} bytes")
    with errors.open("rb") as file:
        return result.returncode, output.read_bytes(), file.read(_MAX_STDERR)


def _environment(home: Path) -> dict[str, str]:
    """Environment without PATH, in which kustomize would find git and fetch remote bases."""
    return {"HOME": str(home), "TMPDIR": str(home), "PATH": str(home / "nothing"), "LC_ALL": "C"}
