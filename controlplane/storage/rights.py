"""Rights as they lie in the store, which a newer replica may have written.

During a rolling upgrade replicas of two versions read the same rows. What this one does not know
by name it can ask of nobody, so leaving it out denies; an empty list means everything, though, and
must not come of leaving out.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.domain.access import Kind, Limit, Rule, Verb
from controlplane.storage.columns import Shape

_KNOWN = {"verbs": frozenset(Verb), "kinds": frozenset(Kind)}
_LETS_NOTHING_THROUGH = {"scopes": ["nowhere"]}

Json = Mapping[str, Any]


class Rules(Shape):
    """The rules of a role, without what this version does not know."""

    cache_ok = True

    def __init__(self) -> None:
        super().__init__(tuple[Rule, ...])

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        known = [one for one in map(_known, value) if one is not None]
        return super().process_result_value(known, dialect)


class Limits(Shape):
    """The limits of a token, of which none gets wider by what this version does not know."""

    cache_ok = True

    def __init__(self) -> None:
        super().__init__(tuple[Limit, ...])

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        known = [_known(one) or _LETS_NOTHING_THROUGH for one in value]
        return super().process_result_value(known, dialect)


def _known(one: Json) -> Json | None:
    """The same without unknown names. None: one of its lists held nothing else."""
    kept = {name: [n for n in one.get(name, ()) if n in known] for name, known in _KNOWN.items()}
    if any(one.get(name) and not names for name, names in kept.items()):
        return None
    return {**one, **kept}
