"""Programs in Go for benchmarks, built once into a cache outside the checkout."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from core.errors import Unavailable
from towline.demo.clusters.binaries import cache_folder
from towline.demo.clusters.go_toolchain import find_go

_HERE = Path(__file__).parent


def go_program(module: str, package: str = ".") -> Path:
    """Returns a program of a module beside this file, building it first if needed.

    Raises Unavailable if Go is missing or the build fails.
    """
    digest = hashlib.sha256(package.encode())
    for path in sorted((_HERE / module).iterdir()):
        digest.update(path.read_bytes())
    program = cache_folder() / "bench" / f"{module}-{digest.hexdigest()[:12]}"
    if not program.is_file():
        program.parent.mkdir(parents=True, exist_ok=True)
        _build(_HERE / module, package, program)
    return program


def _build(module: Path, package: str, program: Path) -> None:
    fixed = {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local"}
    with TemporaryDirectory(dir=program.parent) as folder:
        place, built = Path(folder) / "module", Path(folder) / "built"
        shutil.copytree(module, place)
        done = subprocess.run(
            [find_go(), "build", "-trimpath", "-ldflags", "-s -w", "-o", built, package],
            cwd=place,
            env=os.environ | fixed,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Unavailable(f"building {package} failed: {done.stderr.strip()[-500:]}")
        built.rename(program)
