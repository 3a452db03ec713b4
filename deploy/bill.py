"""python -m deploy.bill: npm's bill of materials (CycloneDX) without what only builds; a filter.

npm's own `--omit dev` leaves out what is shipped, too, if something for development wants it as a
peer, as React.
"""

import json
import sys
from typing import Any

_FOR_DEVELOPMENT = {"name": "cdx:npm:package:development", "value": "true"}


def shipped(bill: dict[str, Any]) -> dict[str, Any]:
    """The same bill with the components that are shipped, and what these depend on."""
    listed = [one for one in bill["components"] if _FOR_DEVELOPMENT not in one["properties"]]
    known = {bill["metadata"]["component"]["bom-ref"], *(one["bom-ref"] for one in listed)}
    dependencies = [
        {**one, "dependsOn": [ref for ref in one["dependsOn"] if ref in known]}
        for one in bill["dependencies"]
        if one["ref"] in known
    ]
    return {**bill, "components": listed, "dependencies": dependencies}


if __name__ == "__main__":
    json.dump(shipped(json.load(sys.stdin)), sys.stdout, indent=2)
