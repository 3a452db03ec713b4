"""The rules that tests/conftest.py lays on every test."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from coverage import CoverageData

ROOT = Path(__file__).parents[2]
SKIPS = """
import os
import pytest

def test_runs(): assert "TOWLINE_URL" not in os.environ and os.environ["HOME"] != "/somebody"

@pytest.mark.skip(reason="no such server here")
def test_should_have_run(): ...

@pytest.mark.skip(reason="platform: needs another system")
def test_may_be_skipped(): ...

@pytest.mark.skip(reason="external: its service is away")
def test_may_be_skipped_too(): ...

@pytest.mark.xfail(reason="known", strict=True)
def test_is_expected_to_fail(): raise ValueError
"""
RACES = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(2))
def test_races(number):
    seen = Path(__file__).with_name(f"seen-{number}")
    if not seen.exists():
        seen.touch()
        raise AssertionError
"""
BROWSER = """
import os
import pytest

@pytest.fixture(scope="session")
def chromium():
    os.environ["BROWSER_RUNS"] = "yes"
    yield
    del os.environ["BROWSER_RUNS"]

@pytest.fixture(scope="session")
def stage(chromium):
    yield
    assert "BROWSER_RUNS" in os.environ
"""
USES = "import os\ndef test_runs(stage): assert 'BROWSER_RUNS' in os.environ\n"
USES_NONE = "import os\ndef test_has_ended(): assert 'BROWSER_RUNS' not in os.environ\n"
MEASURED = """
import counted

def test_is_measured(): counted.here()
"""
ELSEWHERE = "import counted\ndef test_is_elsewhere(): counted.there()\n"
COUNTED = "def here():\n    pass\ndef there():\n    pass\n"
OPTIONS = ["-c", "/dev/null", "--continue-on-collection-errors"]
SKIPPED_MODULE = "import pytest\npytest.importorskip('no_such_module')\n"


def run(folder: Path, ci: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A run over the tests of a folder."""
    given = {"CI": ci, "TOWLINE_URL": "https://real", "XDG_CACHE_HOME": "/nowhere"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", *OPTIONS, *options, folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | given | variables,
    )


def closing_line(folder: Path, ci: str) -> str:
    """The last line of such a run."""
    return run(folder, ci).stdout.strip().rpartition("\n")[2]


def test_a_skip_fails_ci_unless_its_reason_is_allowed(tmp_path: Path) -> None:
    """Also that of a whole file; elsewhere it stays a skip. The environment is clean in both."""
    (tmp_path / "test_skips.py").write_text(SKIPS)
    (tmp_path / "test_module.py").write_text(SKIPPED_MODULE)
    assert "1 passed, 2 skipped, 1 xfailed, 2 errors" in closing_line(tmp_path, "true")
    assert "1 passed, 4 skipped, 1 xfailed" in closing_line(tmp_path, "")


@pytest.mark.parametrize("name", ["Makefile", "pyproject.toml", "requirements-dev.lock"])
def test_no_test_runs_again_after_a_failure(name: str) -> None:
    """A second run would hide a race, which is a defect of the test or of the code."""
    assert re.findall(r".*rerun.*", (ROOT / name).read_text()) == []


def test_a_test_that_fails_only_the_first_time_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_races.py").write_text(RACES)
    assert "2 failed" in closing_line(tmp_path, "true")


def test_the_browser_ends_behind_its_group_and_starts_again(tmp_path: Path) -> None:
    """Its driver occupies the event loop, so no other test could use one."""
    (tmp_path / "conftest.py").write_text(BROWSER)
    for name, text in {"a": USES, "b": USES_NONE, "c": USES}.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    assert "3 passed" in closing_line(tmp_path, "true")


@pytest.mark.parametrize(("worker", "lines"), [("gw0", [1, 2, 3]), ("gw1", [2])])
def test_tests_of_measured_folders_are_measured_and_imports_once(
    tmp_path: Path, worker: str, lines: list[int]
) -> None:
    """Whatever is measured takes twice the time."""
    folder = tmp_path / "measured"
    folder.mkdir()
    (folder / "test_measured.py").write_text(MEASURED)
    (tmp_path / "test_elsewhere.py").write_text(ELSEWHERE)
    (tmp_path / "counted.py").write_text(COUNTED)
    (tmp_path / "settings.ini").write_text(f"[run]\nsource = {tmp_path}\n")
    variables = {
        "MEASURED": str(folder),
        "PYTEST_XDIST_WORKER": worker,
        "PYTHONPATH": str(tmp_path),
        "COVERAGE_RCFILE": str(tmp_path / "settings.ini"),
        "COVERAGE_FILE": str(tmp_path / "lines"),
    }
    done = run(tmp_path, "true", "-o", "pythonpath=.", **variables)
    assert "2 passed" in done.stdout, done.stdout
    (found,) = tmp_path.glob("lines.*")
    data = CoverageData(str(found))
    data.read()
    assert sorted(data.lines(str(tmp_path / "counted.py")) or []) == lines
