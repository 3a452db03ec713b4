"""JSON Schema of the kinds of sinks and of sources of secrets, for the CLI and the console.

`python -m controlplane.api.plugin_kinds` prints it.
"""

import sys

import orjson

from controlplane.notifications.sinks import SINKS
from controlplane.platform.graphql.plugin_schema import schema_of_kind
from controlplane.secrets.sources import SOURCES
from core.json_object import JsonObject


def plugin_kinds() -> JsonObject:
    """Returns the schema of each kind."""
    return {
        "sinks": {kind.kind: schema_of_kind(kind) for kind in SINKS},
        "secretSources": {kind.kind: schema_of_kind(kind) for kind in SOURCES},
    }


if __name__ == "__main__":
    sys.stdout.buffer.write(orjson.dumps(plugin_kinds(), option=orjson.OPT_INDENT_2) + b"\n")
