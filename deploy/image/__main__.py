"""Builds an OCI archive: `python -m deploy.image [--arch amd64 --arch arm64] FOLDER`."""

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from core import __version__
from deploy.image import debian, native, program
from deploy.image.oci import ImageLayout
from deploy.image.tree import skeleton

CACHE = Path.home() / ".cache" / "towline" / "image"
FILE = Path(__file__).parents[1] / "Containerfile"


def config() -> dict[str, Any]:
    """Configuration of the image, from the last stage of the Containerfile."""
    last = FILE.read_text().rpartition("\nFROM ")[2]

    def said(word: str) -> str:
        return re.findall(rf"^{word} (.+)$", last, re.MULTILINE)[-1]

    return {
        "User": said("USER"),
        "WorkingDir": said("WORKDIR"),
        "ExposedPorts": {f"{port}/tcp": {} for port in said("EXPOSE").split()},
        "Entrypoint": yaml.safe_load(said("ENTRYPOINT")),
        "Cmd": yaml.safe_load(said("CMD")),
        "Env": ["PATH=/usr/bin", "HOME=/tmp", "PYTHONDONTWRITEBYTECODE=1"],
        "Labels": {
            "org.opencontainers.image.title": "towline",
            "org.opencontainers.image.version": __version__,
            "org.opencontainers.image.licenses": "Apache-2.0",
        },
    }


def commit_time() -> int:
    """Time of the built commit, which makes the image reproducible."""
    command = ["git", "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def build(architectures: list[str], folder: Path, level: int = 6) -> Path:
    """Builds the archive; returns its path. Prints progress to standard error.

    `level`: gzip compression level.
    """
    layout = ImageLayout(commit_time(), level)
    for architecture in architectures:
        print(f"{architecture}: fetching Debian packages", file=sys.stderr, flush=True)
        system = skeleton() | debian.opened(debian.fetch(architecture, CACHE / architecture))
        print(
            f"{architecture}: installing Python packages and the program",
            file=sys.stderr,
            flush=True,
        )
        files = program.tree(architecture)
        print(f"{architecture}: building the native data plane", file=sys.stderr, flush=True)
        if (module := native.module(architecture)) is not None:
            files[f"{program.PLACE}/{native.MODULE}"] = module
        layout.add(architecture, config(), [system, files])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"towline-{__version__}.oci.tar"
    digest = layout.write(path, __version__)
    print(f"{path} {digest} {path.stat().st_size / 1e6:.0f} MB")
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m deploy.image", description=__doc__)
    parser.add_argument("--arch", action="append", choices=("amd64", "arm64"), dest="architectures")
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    build(given.architectures or ["amd64", "arm64"], given.folder)
