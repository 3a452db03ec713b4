"""Shipped packages have licences that ask for a notice, and no more."""

import json
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CRATE = ROOT / "proxy" / "native" / "Cargo.toml"
TAKEN = {
    "0BSD", "3-Clause BSD License", "Apache Software License", "Apache-2.0", "BSD License",
    "BSD-2-Clause", "BSD-3-Clause", "ISC", "ISC License (ISCL)", "MIT", "MIT License", "MIT-0",
    "MPL-2.0", "Mozilla Public License 2.0 (MPL 2.0)", "PSF-2.0",
    "Python Software Foundation License", "Unlicense", "CC0-1.0", "OFL-1.1", "Zlib",
    "Apache-2.0 WITH LLVM-exception", "Unicode-3.0",
}  # fmt: skip
# What its own metadata does not tell.
KNOWN = {"pyrage": "MIT"}
PINNED = re.findall(r"^([a-z0-9][\w.-]*)==", (ROOT / "requirements.lock").read_text(), re.M)
HERE = [name for name in PINNED if any(metadata.distributions(name=name))]


def licences_of(name: str) -> list[str]:
    """Licences that a package declares; each must be fine."""
    fields = metadata.metadata(name)
    if "License-Expression" in fields:
        return re.split(r" AND | OR ", re.sub(r"[()]", "", fields["License-Expression"]))
    classifiers = fields.get_all("Classifier") or []
    named = [one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License")]
    return named or [fields["License"] if "License" in fields else KNOWN.get(name, "")]


@pytest.mark.parametrize("name", HERE)
def test_a_package_of_python_may_be_shipped(name: str) -> None:
    assert set(licences_of(name)) <= TAKEN


def test_nearly_all_packages_are_looked_at() -> None:
    """Those for other systems and Pythons are not installed here."""
    assert len(HERE) > 0.9 * len(PINNED)


@pytest.mark.skipif(not shutil.which("cargo"), reason="cargo is not installed")
def test_a_crate_may_be_shipped() -> None:
    """Its licence, or one of the licences that it offers."""
    bill = subprocess.run(
        [
            "cargo",
            "metadata",
            "--format-version=1",
            "--offline",
            f"--manifest-path={CRATE}",
            "--filter-platform=x86_64-unknown-linux-gnu",
        ],
        capture_output=True,
        check=False,
    )
    if bill.returncode:
        pytest.skip("platform: the crates have not been fetched")
    crates = json.loads(bill.stdout)["packages"]
    strange = {
        crate["name"]: crate["license"]
        for crate in crates
        if crate["source"] and not may_be_shipped(crate["license"] or "")
    }
    assert len(crates) > 20 and strange == {}


def may_be_shipped(expression: str) -> bool:
    """Reports whether one licence of each choice of an expression is taken."""
    choices = re.sub(r"[()]", "", expression.replace("/", " OR ")).split(" AND ")
    return all(TAKEN & {each.strip() for each in choice.split(" OR ")} for choice in choices)


def test_licences_of_console_packages_allow_shipping() -> None:
    packages = json.loads((ROOT / "console/package-lock.json").read_text())["packages"]
    shipped = {name: one for name, one in packages.items() if name and not one.get("dev")}
    strange = {
        name: one.get("license")
        for name, one in shipped.items()
        if not set(re.split(r" AND | OR ", re.sub(r"[()]", "", one.get("license") or ""))) <= TAKEN
    }
    assert len(shipped) > 10 and strange == {}
