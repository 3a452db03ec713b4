"""Builds the native data plane of the Kubernetes proxy for an architecture, where cargo can."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from deploy.image.tree import TreeEntry

ROOT = Path(__file__).parents[2]
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
# As in the Makefile, so that each architecture is compiled once.
_OUTPUT = Path(os.environ.get("CARGO_TARGET_DIR") or Path.home() / ".cache" / "towline" / "native")
_LIBRARY = "libtowline_native.so"
MODULE = "towline_native.abi3.so"


def module(architecture: str) -> TreeEntry | None:
    """Returns the module; None: it cannot be built here, and the proxy runs without it.

    Prints the reason to standard error. For this machine it is the module of `make setup`.
    """
    machine = _MACHINES[architecture]
    target = "" if machine == platform.machine() else f"{machine}-unknown-linux-gnu"
    if missing := _missing(machine, target):
        print(
            f"{architecture}: without the native data plane, which needs {missing}", file=sys.stderr
        )
        return None
    # The image has the glibc of this Debian release or of a newer one.
    command = ["make", "--silent", "native-module", f"CARGO_TARGET={target}"]
    done = subprocess.run(
        [*command, f"CARGO_TARGET_DIR={_OUTPUT}"], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"the native data plane for {architecture}: {done.stderr.strip()}")
    built = _OUTPUT / target / "release" / _LIBRARY
    return TreeEntry(built.read_bytes(), mode=0o644)


def _missing(machine: str, target: str) -> str:
    """Names what a build for this machine lacks here."""
    if shutil.which("cargo") is None:
        return "cargo"
    if not target:
        return ""
    linker = f"{machine}-linux-gnu-gcc"
    if shutil.which(linker) is None:
        return f"{linker} (on Debian, apt install gcc-{machine.replace('_', '-')}-linux-gnu)"
    command = ["rustc", "--print", "target-libdir", "--target", target]
    libraries = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return "" if libraries and Path(libraries).is_dir() else f"rustup target add {target}"
