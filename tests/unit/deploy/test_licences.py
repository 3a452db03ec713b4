"""Shipped packages have licences that ask for a notice, and no more."""

import json
import re
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TAKEN = {
    "0BSD", "3-Clause BSD License", "Apache Software License", "Apache-2.0", "BSD License",
    "BSD-2-Clause", "BSD-3-Clause", "ISC", "ISC License (ISCL)", "MIT", "MIT License", "MIT-0",
    "MPL-2.0", "Mozilla Public License 2.0 (MPL 2.0)", "PSF-2.0",
    "Python Software Foundation License", "Unlicense", "CC0-1.0", "OFL-1.1", "Zlib",
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


def test_licences_of_console_packages_allow_shipping() -> None:
    packages = json.loads((ROOT / "console/package-lock.json").read_text())["packages"]
    shipped = {name: one for name, one in packages.items() if name and not one.get("dev")}
    strange = {
        name: one.get("license")
        for name, one in shipped.items()
        if not set(re.split(r" AND | OR ", re.sub(r"[()]", "", one.get("license") or ""))) <= TAKEN
    }
    assert len(shipped) > 10 and strange == {}
