"""The types of decoded JSON."""

from collections.abc import Mapping
from typing import Any

JsonValue = Any
"""A decoded JSON value; each reader checks its type."""
JsonObject = dict[str, JsonValue]
"""A decoded JSON object; each reader checks the parts that it uses."""
JsonMapping = Mapping[str, JsonValue]
"""A decoded JSON object that nobody changes."""
