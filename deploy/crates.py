"""Writes the SBOM (CycloneDX) of the native data plane from `cargo metadata`.

The hashes are those of `proxy/native/crates.lock`, which lists the crates of all systems.
"""

import json
import sys
import tomllib
from pathlib import Path
from typing import TypedDict

LOCK = Path(__file__).parents[1] / "proxy" / "native" / "crates.lock"


class Crate(TypedDict):
    """A crate in the output of `cargo metadata`."""

    id: str
    name: str
    version: str
    license: str


class CargoMetadata(TypedDict):
    """The output of `cargo metadata` for one system."""

    packages: list[Crate]
    workspace_members: list[str]


def checksums(lock: Path = LOCK) -> dict[tuple[str, str], str]:
    """Returns the SHA-256 of each locked crate, by name and version."""
    packages = tomllib.loads(lock.read_text())["package"]
    return {
        (package["name"], package["version"]): package["checksum"]
        for package in packages
        if "checksum" in package
    }


def sbom(metadata: CargoMetadata, locked: dict[tuple[str, str], str]) -> dict[str, object]:
    """Returns the SBOM. KeyError: a crate is not locked."""
    own = set(metadata["workspace_members"])
    components = [
        {
            "type": "library",
            "name": crate["name"],
            "version": crate["version"],
            "purl": f"pkg:cargo/{crate['name']}@{crate['version']}",
            "licenses": [{"expression": crate["license"]}],
            "hashes": [{"alg": "SHA-256", "content": locked[crate["name"], crate["version"]]}],
        }
        for crate in metadata["packages"]
        if crate["id"] not in own
    ]
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components}


if __name__ == "__main__":
    json.dump(sbom(json.load(sys.stdin), checksums()), sys.stdout, indent=2)
