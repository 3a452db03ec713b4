"""Installs the program and the locked Python packages for any architecture."""

import compileall
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from py_compile import PycInvalidationMode
from tempfile import TemporaryDirectory

from packaging.markers import Marker

from deploy.image.tree import TreeEntry

ROOT = Path(__file__).parents[2]
# Debian's Python, and its package directory, which it also uses in isolated mode.
PYTHON = (3, 11)
PYTHON_FULL = "3.11.2"
PLACE = "usr/lib/python3/dist-packages"
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_GLIBC = ("2_36", "2_35", "2_34", "2_31", "2_28", "2_27", "2_24", "2_17")
# Large packages with few imported modules: their bytecode would be a fifth of the image.
_NOT_COMPILED = re.compile(r"/(kubernetes|babel|pygments)/")
_START = """#!/usr/bin/python3
import sys

from {module} import main

sys.exit(main())
"""
_SCRIPTS = {"towline": "towline.cli", "towline-kubectl-login": "towline.kubectl_login"}


def tree(architecture: str) -> dict[str, TreeEntry]:
    """Files of the Python packages and the commands."""
    with TemporaryDirectory() as folder:
        target = Path(folder) / "packages"
        _install(architecture, target)
        _compile(target)
        found = dict(_files(target))
    found |= _console()
    for name, module in _SCRIPTS.items():
        found[f"usr/bin/{name}"] = TreeEntry(_START.format(module=module).encode())
    return found


def _install(architecture: str, target: Path) -> None:
    machine = _MACHINES[architecture]
    platforms = [f"manylinux_{glibc}_{machine}" for glibc in _GLIBC] + [f"manylinux2014_{machine}"]
    tags = [word for platform in platforms for word in ("--platform", platform)]
    tags += ["--implementation", "cp", "--python-version", ".".join(map(str, PYTHON))]
    tags += [
        word for abi in (f"cp{PYTHON[0]}{PYTHON[1]}", "abi3", "none") for word in ("--abi", abi)
    ]
    common = [
        "install",
        "--no-deps",
        "--no-compile",
        "--only-binary=:all:",
        "--target",
        str(target),
    ]
    with TemporaryDirectory() as wheels:
        lock = Path(wheels) / "requirements.txt"
        lock.write_text(locked((ROOT / "requirements.lock").read_text(), machine))
        _pip(*common, *tags, "--require-hashes", "-r", str(lock))
        _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, str(ROOT))
        _pip(*common, "--upgrade", *map(str, Path(wheels).glob("*.whl")))


def _console() -> dict[str, TreeEntry]:
    """Files of `make console`; without them, the start page says so."""
    built = ROOT / "console" / "dist"
    files = [path for path in built.rglob("*") if path.is_file()]
    return {
        f"{PLACE}/towline/console/{path.relative_to(built).as_posix()}": TreeEntry(
            path.read_bytes(), mode=0o644
        )
        for path in files
    }


def locked(text: str, machine: str) -> str:
    """Evaluates the lock file's markers for the image's Python, as pip uses the running one."""
    there = {
        "implementation_name": "cpython",
        "platform_machine": machine,
        "python_full_version": PYTHON_FULL,
        "python_version": PYTHON_FULL.rpartition(".")[0],
        "sys_platform": "linux",
    }
    blocks = re.split(r"\n(?=\S)", text.strip())
    kept = []
    for block in blocks:
        head, mark, rest = block.partition(" ; ")
        marker, end, hashes = rest.partition(" \\\n")
        if not mark or Marker(marker).evaluate(there):
            kept.append(f"{head}{end or ''}{hashes}" if mark else block)
    return "\n".join(kept) + "\n"


def _pip(*words: str) -> None:
    if find_spec("pip") is None:
        # Environments created by uv have no pip.
        subprocess.run([sys.executable, "-m", "ensurepip"], check=True, stdout=subprocess.DEVNULL)
        importlib.invalidate_caches()
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    # make builds the console once, instead of once per wheel.
    env = os.environ | {"CONSOLE_BUILD": "skip"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env)
    if done.returncode:
        raise SystemExit(f"pip {words[0]}: {done.stderr.strip()}")


def _compile(target: Path) -> None:
    """Compiles unchecked bytecode, if this Python has the version of the image."""
    if sys.version_info[:2] == PYTHON:
        compileall.compile_dir(
            str(target),
            quiet=2,
            rx=_NOT_COMPILED,
            stripdir=str(target),
            prependdir=f"/{PLACE}",
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        )


def _files(target: Path) -> Iterator[tuple[str, TreeEntry]]:
    for folder, names, files in os.walk(target):
        names[:] = [name for name in names if name not in {"tests", "test", "bin"}]
        for name in files:
            path = Path(folder) / name
            if name in {"RECORD", "direct_url.json"}:
                continue
            mode = 0o755 if os.access(path, os.X_OK) else 0o644
            yield (
                f"{PLACE}/{path.relative_to(target).as_posix()}",
                TreeEntry(path.read_bytes(), mode=mode),
            )
