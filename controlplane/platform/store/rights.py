"""Permissions in the store, which a newer replica may have written.

During a rolling upgrade, replicas of two versions read the same rows. An unknown name is dropped,
which denies. An empty list would mean everything, so a list must not become empty by dropping
names.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.authorization import Limit, ResourceKind, Rule, Verb
from controlplane.platform.store.columns import JsonColumn

_KNOWN_NAMES = {"verbs": frozenset(Verb), "kinds": frozenset(ResourceKind)}
_LETS_NOTHING_THROUGH = {"scopes": ["nowhere"]}

Json = Mapping[str, Any]


class RulesColumn(JsonColumn):
    """The rules of a role, without names that this version does not know."""

    cache_ok = True

    def __init__(self) -> None:
        super().__init__(tuple[Rule, ...])

    def process_result_value(self, value: Any, dialect: object) -> object:
        known = [rule for rule in map(_without_unknown_names, value) if rule is not None]
        return super().process_result_value(known, dialect)


class LimitsColumn(JsonColumn):
    """The limits of a token; dropping unknown names never widens a limit."""

    cache_ok = True

    def __init__(self) -> None:
        super().__init__(tuple[Limit, ...])

    def process_result_value(self, value: Any, dialect: object) -> object:
        known = [_without_unknown_names(limit) or _LETS_NOTHING_THROUGH for limit in value]
        return super().process_result_value(known, dialect)


def _without_unknown_names(rights: Json) -> Json | None:
    """Returns the value without unknown names. None: one of its lists contained nothing else."""
    lists = {
        name: [n for n in rights.get(name, ()) if n in known]
        for name, known in _KNOWN_NAMES.items()
    }
    if any(rights.get(name) and not names for name, names in lists.items()):
        return None
    return {**rights, **lists}
