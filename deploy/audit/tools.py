"""Asks the services: first about a release known to be vulnerable, then about our packages.

The first question detects a service without data, which would report no vulnerabilities at all.
pip-audit and npm ask theirs. The advisories of RustSec are in OSV, which pip-audit can use too.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from urllib.request import Request, urlopen

from deploy.audit.findings import (
    AuditReport,
    AuditUnavailable,
    Crate,
    KnownVulnerability,
    from_npm,
    from_osv,
    from_pip_audit,
)

ROOT = Path(__file__).parents[2]
TOOLS = Path(__file__).parent / "tools.lock"
SECONDS = 300
# Known since 2019 (CVE-2019-10906) and 2020 (CVE-2020-7598).
OF_PYTHON = (
    "jinja2==2.10 --hash=sha256:74c935a1b8bb9a3947c50a54766a969d4846290e1e788ea44c1392163723c3bd\n"
)
OF_NODE = {"minimist": "0.0.8"}
# Since 2019 (CVE-2019-15551).
OF_RUST = ("smallvec", "0.6.9")
# As pip-audit names and defaults it.
OSV_VARIABLE, OSV_URL = "PIP_AUDIT_OSV_URL", "https://api.osv.dev/v1/query"
OSV_SECONDS = 30


def python(locks: list[Path], folder: Path) -> AuditReport:
    """Audits the packages of lock files for this system; installs the tool in `folder`.

    Unanswered: the tool could not be installed, or its service has no data.
    """
    tools = installed(folder / "tools")

    def ask(files: list[Path]) -> AuditReport:
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


def node(project: Path) -> AuditReport:
    """Audits the packages of a package-lock.json.

    Unanswered: npm is not installed, or its registry has no advisories.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise AuditUnavailable("npm is not installed")

    def ask(folder: Path) -> AuditReport:
        words = [npm, "audit", "--package-lock-only", "--json", "--silent"]
        return from_npm(_said(words, folder, {}))

    with tempfile.TemporaryDirectory() as place:
        write_project(Path(place), OF_NODE)
        _check_sight(lambda: ask(Path(place)))
    return ask(project)


def crates(lock: Path) -> AuditReport:
    """Audits the crates of a lock file of cargo. AuditUnavailable: OSV was not reachable, or has no
    advisories.
    """
    listed = tomllib.loads(lock.read_text())["package"]
    # Our own crate has no checksum.
    locked = [(entry["name"], entry["version"]) for entry in listed if "checksum" in entry]
    _check_sight(lambda: AuditReport(1, _ask_osv(OF_RUST)))
    found = [finding for crate in locked for finding in _ask_osv(crate)]
    return AuditReport(len(locked), tuple(found))


def _ask_osv(crate: Crate) -> tuple[KnownVulnerability, ...]:
    name, version = crate
    query = {"package": {"name": name, "ecosystem": "crates.io"}, "version": version}
    request = Request(
        os.environ.get(OSV_VARIABLE, OSV_URL),
        json.dumps(query).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urlopen(request, timeout=OSV_SECONDS) as response:
            return from_osv(crate, response.read().decode())
    except (OSError, UnicodeDecodeError) as error:
        raise AuditUnavailable(f"OSV is not reachable: {error}") from None


def _check_sight(ask: Callable[[], AuditReport]) -> None:
    if not ask().findings:
        raise AuditUnavailable("the service does not report a well-known vulnerability")


def write_project(folder: Path, packages: dict[str, str]) -> None:
    """Writes an npm project that locks these versions to `folder`."""
    project = {"name": "known", "version": "1.0.0", "dependencies": packages}
    (folder / "package.json").write_text(json.dumps(project))
    named = {f"node_modules/{name}": {"version": package} for name, package in packages.items()}
    lock = {"lockfileVersion": 3, "requires": True, "packages": {"": project, **named}}
    (folder / "package-lock.json").write_text(json.dumps({**project, **lock}))


def installed(folder: Path) -> Path:
    """Installs pip-audit in its own folder, apart from the product's packages."""
    mark = folder / ".lock"
    if mark.exists() and mark.read_text() == TOOLS.read_text():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    uv = shutil.which("uv")
    installer = [uv, "pip", "install", "--python", sys.executable] if uv else _pip()
    _said([*installer, "--target", str(folder), "--require-hashes", "-r", str(TOOLS)], ROOT, {})
    if not (folder / "pip_audit").is_dir():
        raise AuditUnavailable("pip-audit could not be installed")
    mark.write_text(TOOLS.read_text())
    return folder


def _pip() -> list[str]:
    return [sys.executable, "-m", "pip", "install", "--quiet"]


def _said(words: list[str], folder: Path, variables: dict[str, str]) -> str:
    """Returns standard output, else standard error: the tools exit with an error for findings."""
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
        raise AuditUnavailable(f"no response within {SECONDS} s") from None
    return done.stdout or done.stderr
