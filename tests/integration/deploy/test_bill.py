"""The bills of materials name all that is shipped, and no more."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deploy.crates import checksums

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def bills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make sbom` writes; its tool comes as wheels."""
    folder = tmp_path_factory.mktemp("bill")
    words = ["make", "--silent", "sbom", f"SBOM={folder}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if not (folder / "tools" / "cyclonedx_py").is_dir():
        pytest.skip(f"no tool for bills could be installed: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return folder


def components(path: Path) -> dict[str, dict[str, Any]]:
    """Components of a bill, by `name==version`."""
    bill = json.loads(path.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    listed = bill["components"]
    return {f"{full_name(one)}=={one['version']}": one for one in listed}


def full_name(component: dict[str, Any]) -> str:
    group = component.get("group")
    return f"{group}/{component['name']}" if group else component["name"]


def test_the_bill_of_python_is_the_lock_file_with_its_hashes(bills: Path) -> None:
    lock = (ROOT / "requirements.lock").read_text()
    pins = dict(re.findall(r"^(\S+==[^\s;]+).*?\n((?:    --hash=\S+.*\n)+)", lock, re.M))
    listed = components(bills / "python.cdx.json")
    assert listed.keys() == pins.keys() and len(pins) > 50
    for name, one in listed.items():
        digests = {
            each["content"]
            for reference in one["externalReferences"]
            for each in reference.get("hashes", ())
        }
        assert digests == set(re.findall(r"sha256:([0-9a-f]{64})", pins[name]))


@pytest.mark.skipif(not shutil.which("cargo"), reason="cargo is not installed")
def test_the_bill_of_the_native_module_has_the_hashes_of_its_lock(bills: Path) -> None:
    """The crates of this system, without those of others and without our own."""
    listed = components(bills / "native.cdx.json")
    locked = {f"{name}=={version}": digest for (name, version), digest in checksums().items()}
    assert "rustls" in {component["name"] for component in listed.values()}
    assert listed.keys() < locked.keys()
    for name, component in listed.items():
        assert [each["content"] for each in component["hashes"]] == [locked[name]]


@pytest.mark.skipif(not shutil.which("npm"), reason="there is no npm")
def test_the_bill_of_the_console_is_what_it_ships(bills: Path) -> None:
    """Packages needed only for the build are not in it."""
    packages = json.loads((ROOT / "console/package-lock.json").read_text())["packages"]
    shipped = {
        f"{name.rpartition('node_modules/')[2]}=={one['version']}"
        for name, one in packages.items()
        if name and not one.get("dev")
    }
    listed = components(bills / "console.cdx.json")
    assert listed.keys() == shipped and any(name.startswith("react==") for name in listed)
