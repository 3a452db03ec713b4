"""Kinds of sinks, from the published schema of the control plane."""

import json
from pathlib import Path

from core.json_object import JsonObject

_SCHEMA = Path(__file__).with_name("plugin_kinds.json")
SINK_KINDS: dict[str, JsonObject] = json.loads(_SCHEMA.read_text())["sinks"]
"""JSON Schema of the settings of each kind of sink, by its name in the API."""
