"""Descriptions of chart values, which editors and registries show."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHARTS = Path(__file__).parents[3] / "charts"


def undescribed(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yields the paths of the values without a description."""
    for name, value in schema.get("properties", {}).items():
        if value is True:
            continue  # The templates check it; values.yaml and the README describe it.
        if "description" not in value:
            yield f"{path}{name}"
        yield from undescribed(value, f"{path}{name}.")


@pytest.mark.parametrize("chart", ["towline", "towline-agent"])
def test_every_value_has_a_description(chart: str) -> None:
    schema = json.loads((CHARTS / chart / "values.schema.json").read_text())
    definitions = schema["definitions"].values()
    assert [path for part in (schema, *definitions) for path in undescribed(part)] == []
