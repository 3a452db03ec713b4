"""The type of decoded JSON objects."""

from typing import Any

JsonObject = dict[str, Any]
"""A decoded JSON object; each reader checks the parts that it uses."""
