"""The types of decoded JSON objects."""

from collections.abc import Mapping
from typing import Any

JsonObject = dict[str, Any]
"""A decoded JSON object; each reader checks the parts that it uses."""
JsonMapping = Mapping[str, Any]
"""A decoded JSON object that nobody changes."""
