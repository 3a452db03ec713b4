"""JSON Schema of the kinds of gates, steps and triggers, for the CLI and the console.

`python -m controlplane.pipelines.api.kinds_schema` prints it.
"""

import sys

import orjson

from controlplane.pipelines.gates.kinds import ALL, GATES, STEPS
from controlplane.pipelines.model.gate_rules import CheckRule, Patience
from controlplane.pipelines.triggers import kinds as triggers
from controlplane.platform.graphql.plugin_schema import schema_of, schema_of_kind
from core.json_object import JsonObject


def kinds_schema() -> JsonObject:
    """Returns the schema of each kind and of retries, and the names of kinds by their use."""
    checks = [kind.kind for kind in ALL if issubclass(kind, CheckRule)]
    return {
        "kinds": {kind.kind: schema_of_kind(kind) for kind in ALL},
        "gates": [kind.kind for kind in GATES],
        "steps": [kind.kind for kind in STEPS],
        "checks": checks,
        "triggers": {kind.kind: schema_of_kind(kind) for kind in triggers.ALL},
        "retries": schema_of(Patience)["properties"],
    }


if __name__ == "__main__":
    sys.stdout.buffer.write(orjson.dumps(kinds_schema(), option=orjson.OPT_INDENT_2) + b"\n")
