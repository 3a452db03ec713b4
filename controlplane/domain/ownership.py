"""Kinds of definitions that own services."""

from enum import StrEnum


class OwnerKind(StrEnum):
    """Kinds of definitions that generate services on many clusters."""

    GLOBAL = "global"
    SET = "set"
    NAMESPACE = "namespace"

    @property
    def noun(self) -> str:
        """Returns the kind's display name."""
        return {"global": "global service", "set": "service set"}.get(self, "managed namespace")
