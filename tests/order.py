"""The order of tests that several workers run.

Tests of `tests/unit` compute, others wait for servers. Side by side they occupy all cores.
"""

from collections.abc import Iterable
from typing import TypeVar

import pytest

One = TypeVar("One")


def mixed(items: list[pytest.Item]) -> list[pytest.Item]:
    """Groups as they were, and then all other tests, those of `tests/unit` evenly among them."""
    grouped, unit, others = [], [], []
    for item in items:
        if item.get_closest_marker("xdist_group"):
            grouped.append(item)
        else:
            (unit if "tests/unit/" in item.nodeid else others).append(item)
    return grouped + spread([others, unit])


def spread(parts: Iterable[list[One]]) -> list[One]:
    """One list of several, each of which keeps its order and is spread over the whole."""
    placed = [
        ((number + 0.5) / len(part), one) for part in parts for number, one in enumerate(part)
    ]
    return [one for _, one in sorted(placed, key=lambda pair: pair[0])]
