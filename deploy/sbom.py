"""Filters npm's SBOM (CycloneDX) to shipped components: `python -m deploy.sbom`.

npm's own `--omit dev` also drops shipped components, such as React, that are peer dependencies of a
development dependency.
"""

import json
import sys
from typing import Any

_FOR_DEVELOPMENT = {"name": "cdx:npm:package:development", "value": "true"}


def without_development(bill: dict[str, Any]) -> dict[str, Any]:
    """Returns the SBOM with only shipped components and their dependencies."""
    listed = [
        component
        for component in bill["components"]
        if _FOR_DEVELOPMENT not in component["properties"]
    ]
    known = {
        bill["metadata"]["component"]["bom-ref"],
        *(component["bom-ref"] for component in listed),
    }
    dependencies = [
        {**dependency, "dependsOn": [ref for ref in dependency["dependsOn"] if ref in known]}
        for dependency in bill["dependencies"]
        if dependency["ref"] in known
    ]
    return {**bill, "components": listed, "dependencies": dependencies}


if __name__ == "__main__":
    json.dump(without_development(json.load(sys.stdin)), sys.stdout, indent=2)
