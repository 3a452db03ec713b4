"""The real tools find what a service knows, and say so where it knows nothing."""

import gzip
import json
import re
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from core.runtime.clock import SystemClock
from deploy.audit import tools
from deploy.audit.__main__ import CRATES, UNKNOWN, main
from deploy.audit.findings import AuditUnavailable

OSV = "PIP_AUDIT_VULNERABILITY_SERVICE", "PIP_AUDIT_OSV_URL"
NPM = pytest.mark.skipif(not shutil.which("npm"), reason="there is no npm")
# A package with a number that no release of it has: it is asked about, never fetched.
INNOCENT = f"idna==99.0 --hash=sha256:{'0' * 64}\n"


class Advisories(BaseHTTPRequestHandler):
    """Responses of OSV and a registry of npm about two packages."""

    def do_GET(self) -> None:
        """The releases of a package, among which npm looks for one that is not affected."""
        releases = {one: {"name": "minimist", "version": one} for one in ("0.0.8", "1.2.8")}
        self.answer({"name": "minimist", "versions": releases})

    def do_POST(self) -> None:
        said = self.rfile.read(int(self.headers["Content-Length"]))
        said = gzip.decompress(said) if self.headers["Content-Encoding"] == "gzip" else said
        self.answer(self.known(json.loads(said)))

    def answer(self, report: dict[str, Any]) -> None:
        body = json.dumps(report).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def known(self, asked: dict[str, Any]) -> dict[str, Any]:
        if self.path == "/v1/query":
            return {"vulns": OSV_KNOWS.get(tuple(asked["package"].values()), [])}
        return {"minimist": [MINIMIST]}

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is written."""


class Ignorance(Advisories):
    """A service that answers well, and has no advisories."""

    def known(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {}


JINJA = {
    "id": "PYSEC-2019-217",
    "aliases": ["CVE-2019-10906"],
    "summary": "Sandbox escape by str.format_map",
    "affected": [
        {
            "package": {"name": "jinja2", "ecosystem": "PyPI"},
            "ranges": [
                {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.10.1"}]},
            ],
        }
    ],
}
SMALLVEC = {
    "id": "RUSTSEC-2019-0009",
    "aliases": ["CVE-2019-15551"],
    "summary": "Double-free and use-after-free in SmallVec::grow()",
    "affected": [
        {
            "package": {"name": "smallvec", "ecosystem": "crates.io"},
            "ranges": [
                {"type": "SEMVER", "events": [{"introduced": "0.6.5"}, {"fixed": "0.6.10"}]},
            ],
        }
    ],
}
OSV_KNOWS = {("jinja2", "PyPI"): [JINJA], ("smallvec", "crates.io"): [SMALLVEC]}
MINIMIST = {
    "id": 1179,
    "url": "https://github.com/advisories/GHSA-vh95-rmgr-6w4m",
    "title": "Prototype Pollution in minimist",
    "severity": "moderate",
    "vulnerable_versions": "<0.2.1",
}


@pytest.fixture(params=[Advisories])
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address that both tools use instead of the public services."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), request.param)
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv(OSV[0], "osv")
    monkeypatch.setenv(OSV[1], f"{url}/v1/query")
    monkeypatch.setenv("npm_config_registry", url)
    yield url
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tool for Python is kept; it comes as wheels."""
    folder = tmp_path_factory.mktemp("audit")
    try:
        tools.installed(folder)
    except AuditUnavailable as error:
        pytest.skip(str(error))
    return folder


@pytest.mark.usefixtures("service")
def test_a_vulnerable_release_in_a_lock_file_is_found(folder: Path, tmp_path: Path) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text(tools.OF_PYTHON + INNOCENT)
    report = tools.python([lock], folder)
    assert report.packages == 2
    (found,) = report.findings
    assert (found.package, found.version) == ("jinja2", "2.10")
    assert set(found.ids) == {"PYSEC-2019-217", "CVE-2019-10906"}
    assert found.remedy == "fixed in 2.10.1"


@NPM
@pytest.mark.usefixtures("service")
def test_a_vulnerable_package_of_the_console_is_found(tmp_path: Path) -> None:
    tools.write_project(tmp_path, tools.OF_NODE)
    report = tools.node(tmp_path)
    (found,) = report.findings
    assert (found.package, found.ids) == ("minimist", ("GHSA-vh95-rmgr-6w4m",))


@pytest.mark.usefixtures("service")
def test_a_vulnerable_crate_is_found(tmp_path: Path) -> None:
    lock = tmp_path / "crates.lock"
    locked = '[[package]]\nname = "{}"\nversion = "{}"\n'
    checksum = f'checksum = "{"0" * 64}"\n'
    own, others = locked.format("own", "0.0.0"), (("smallvec", "0.6.9"), ("sound", "1.0.0"))
    lock.write_text(own + "".join(locked.format(*crate) + checksum for crate in others))
    report = tools.crates(lock)
    assert report.packages == 2
    (found,) = report.findings
    assert (found.package, found.version) == ("smallvec", "0.6.9")
    assert found.ids == ("RUSTSEC-2019-0009", "CVE-2019-15551")
    assert found.remedy == "fixed in 0.6.10"


@pytest.mark.usefixtures("service")
def test_all_lock_files_are_audited(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each by the service that knows its packages; the stand-in knows one of any release."""
    main(folder, SystemClock().now().date())
    audited = capsys.readouterr().out
    for name in ("Python", "Rust"):
        assert re.search(rf"^{name}: \d\d+ packages, ", audited, re.MULTILINE), audited


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("service", [Ignorance], indirect=True)
def test_a_service_without_advisories_calls_no_crate_sound() -> None:
    with pytest.raises(AuditUnavailable, match="does not report a well-known"):
        tools.crates(CRATES)


@NPM
@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("service", [Ignorance], indirect=True)
def test_a_service_that_knows_nothing_calls_nothing_sound(tmp_path: Path) -> None:
    tools.write_project(tmp_path, {"idna": "99.0.0"})
    with pytest.raises(AuditUnavailable, match="does not report a well-known"):
        tools.node(tmp_path)


@pytest.mark.timeout(2 * tools.SECONDS)
def test_nothing_that_is_locked_is_known_to_be_vulnerable(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the services of the world, where they can be asked."""
    code = main(folder, SystemClock().now().date())
    said = capsys.readouterr().out
    if code == UNKNOWN:
        away = next(line for line in said.splitlines() if "was not audited" in line)
        pytest.skip(f"external: {away}")
    assert code == 0, said
