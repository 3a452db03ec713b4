"""JSON Schema of the kinds of sinks, for the CLI.

`python -m controlplane.api.plugin_kinds` prints it.
"""

import sys

import orjson

from controlplane.notifications.sinks import SINKS
from controlplane.platform.graphql.plugin_schema import Json, schema_of_kind


def plugin_kinds() -> Json:
    """Returns the schema of each kind."""
    return {"sinks": {kind.kind: schema_of_kind(kind) for kind in SINKS}}


if __name__ == "__main__":
    sys.stdout.buffer.write(orjson.dumps(plugin_kinds(), option=orjson.OPT_INDENT_2) + b"\n")
