"""Places of sealed values in manifests."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

SEALED = "sealed"
"""The only field of an object that stands for a sealed text in a manifest."""


@dataclass(frozen=True, slots=True)
class SealedPlace:
    """The place of a secret field in a manifest.

    Names identify items of lists, and not their positions.
    """

    kind: str
    name: str
    """Name of the resource, as references have it."""
    project: str
    """Name of the project. Empty: the installation."""
    path: tuple[str, ...]
    """Fields of the spec that lead to the value."""
    destination: Mapping[str, str] = field(default_factory=dict)
    """Fields of the same object that tell who receives the value."""

    @property
    def text(self) -> str:
        """Returns the place as one text."""
        parts = [self.kind, self.name, self.path, sorted(self.destination.items())]
        return json.dumps(parts, separators=(",", ":"))


def item_name(item: object) -> str:
    """Returns the name of an item of a list: an edge has those of its stages."""
    if not isinstance(item, Mapping):
        return ""
    names = [item.get(key) for key in ("name", "source", "target")]
    return "→".join(str(name) for name in names if name)


def destination_of(names: Iterable[str], values: Mapping[str, object]) -> dict[str, str]:
    """Returns the fields of an object that tell who receives its secrets; not the absent ones."""
    return {name: str(values[name]) for name in names if values.get(name) not in (None, "")}
