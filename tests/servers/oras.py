"""ORAS, a client of registries that nobody here wrote, built from its Go module."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from core.errors import Unavailable
from towline.demo.clusters.binaries import cache_folder
from towline.demo.clusters.go_toolchain import find_go

_VERSION = "v1.3.6"
_SUM = "h1:Lhsfr2tQLjsu/+CJZp6vYatwKT+62fbIUTlp4lUrfOA="
_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}


def find_oras() -> Path | None:
    """The program on the PATH, or the built one."""
    found = shutil.which("oras")
    built = _place()
    return Path(found) if found else built if built.exists() else None


def build_oras() -> None:
    """Build the program once, outside the checkout. Unavailable: it cannot be fetched or built."""
    module = json.loads(_go("mod", "download", "-json", f"oras.land/oras@{_VERSION}"))
    if module["Sum"] != _SUM:
        raise Unavailable(f"ORAS {_VERSION} has another checksum than {__name__}")
    options = ("-p=2", "-trimpath", "-buildvcs=false", "-ldflags=-s -w")
    _go("build", *options, f"-o={_place()}", "./cmd/oras", folder=Path(module["Dir"]))


def _place() -> Path:
    return cache_folder() / "oras" / _VERSION / "oras"


def _go(*arguments: str, folder: Path | None = None) -> str:
    done = subprocess.run(
        ["nice", find_go(), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | _ENVIRONMENT,
    )
    if done.returncode:
        raise Unavailable(f"ORAS cannot be built: {done.stderr.strip()[-300:]}")
    return done.stdout
