"""Runs the two tools: first with a release that is known to be vulnerable, then with ours.

A service that knows nothing of the former would call everything sound.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from deploy.audit.findings import Report, Unanswered, from_npm, from_pip_audit

ROOT = Path(__file__).parents[2]
TOOLS = Path(__file__).parent / "tools.lock"
SECONDS = 300
# Known since 2019 (CVE-2019-10906) and 2020 (CVE-2020-7598).
OF_PYTHON = (
    "jinja2==2.10 --hash=sha256:74c935a1b8bb9a3947c50a54766a969d4846290e1e788ea44c1392163723c3bd\n"
)
OF_NODE = {"minimist": "0.0.8"}


def python(locks: list[Path], folder: Path) -> Report:
    """What is known of all that lock files name for this system; the tool is kept in `folder`.

    Unanswered: it could not be installed, or its service tells nothing.
    """
    tools = installed(folder / "tools")

    def ask(files: list[Path]) -> Report:
        named = [word for file in files for word in ("-r", str(file))]
        return from_pip_audit(
            _said(
                [sys.executable, "-m", "pip_audit", *named, "--require-hashes", "--disable-pip"]
                + ["--progress-spinner=off", "--format=json", f"--cache-dir={folder / 'cache'}"],
                ROOT,
                {"PYTHONPATH": str(tools)},
            )
        )

    with tempfile.TemporaryDirectory() as place:
        known = Path(place) / "known.txt"
        known.write_text(OF_PYTHON)
        _check_sight(lambda: ask([known]))
    return ask(locks)


def node(project: Path) -> Report:
    """What is known of all that a package-lock.json names.

    Unanswered: there is no npm, or its registry tells of no advisories.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise Unanswered("there is no npm")

    def ask(folder: Path) -> Report:
        words = [npm, "audit", "--package-lock-only", "--json", "--silent"]
        return from_npm(_said(words, folder, {}))

    with tempfile.TemporaryDirectory() as place:
        write_project(Path(place), OF_NODE)
        _check_sight(lambda: ask(Path(place)))
    return ask(project)


def _check_sight(ask: Callable[[], Report]) -> None:
    if not ask().findings:
        raise Unanswered("the service does not know of a vulnerability that all others know of")


def write_project(folder: Path, packages: dict[str, str]) -> None:
    """Make `folder` an npm project that is locked to these versions."""
    project = {"name": "known", "version": "1.0.0", "dependencies": packages}
    (folder / "package.json").write_text(json.dumps(project))
    named = {f"node_modules/{name}": {"version": package} for name, package in packages.items()}
    lock = {"lockfileVersion": 3, "requires": True, "packages": {"": project, **named}}
    (folder / "package-lock.json").write_text(json.dumps({**project, **lock}))


def installed(folder: Path) -> Path:
    """The folder with the tool for Python, beside and not among the product's own packages."""
    mark = folder / ".lock"
    if mark.exists() and mark.read_text() == TOOLS.read_text():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    uv = shutil.which("uv")
    installer = [uv, "pip", "install", "--python", sys.executable] if uv else _pip()
    _said([*installer, "--target", str(folder), "--require-hashes", "-r", str(TOOLS)], ROOT, {})
    if not (folder / "pip_audit").is_dir():
        raise Unanswered("pip-audit could not be installed")
    mark.write_text(TOOLS.read_text())
    return folder


def _pip() -> list[str]:
    return [sys.executable, "-m", "pip", "install", "--quiet"]


def _said(words: list[str], folder: Path, variables: dict[str, str]) -> str:
    """Standard output, or, where there is none, the complaint; these tools fail by finding."""
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise Unanswered(f"no answer within {SECONDS} s") from None
    return done.stdout or done.stderr
