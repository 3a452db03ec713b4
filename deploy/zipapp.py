"""Builds the command line as one file: `python -m deploy.zipapp FILE`.

The file is an archive of pex. It has the packages of this environment that commands of users need,
so it runs on the operating system and with the Python version of this environment.
"""

import importlib
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from towline.demo.wheels import install

ROOT = Path(__file__).parents[1]
_LOCK = Path(__file__).parent / "zipapp.lock"
_PACKAGES = ("core", "towline")
_REQUIREMENTS = ("python-jsonpath", "pyyaml", "textual", "typer", "websocket-client")
_ENTRY = "towline.cli.zipapp:main"


def build(file: Path) -> None:
    """Writes the archive. CalledProcessError: pex failed; its reason is on standard error."""
    if find_spec("pex") is None:
        print("installing pex from a wheel", file=sys.stderr, flush=True)
        install(_LOCK)
        importlib.invalidate_caches()
    file.parent.mkdir(parents=True, exist_ok=True)
    packages = [f"--package={package}@{ROOT}" for package in _PACKAGES]
    options = ["--venv-repository", sys.prefix, "--entry-point", _ENTRY, "--output", str(file)]
    # The interpreter of the user's PATH, not the one of this environment.
    options += ["--python-shebang", "/usr/bin/env python3"]
    argv = [sys.executable, "-m", "pex", *options, *packages, *_REQUIREMENTS]
    subprocess.run(argv, check=True)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
