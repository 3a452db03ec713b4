"""Which sort of definition a service comes from."""

from enum import StrEnum


class OwnerKind(StrEnum):
    """The sorts of definitions that make services in many clusters."""

    GLOBAL = "global"
    SET = "set"
    NAMESPACE = "namespace"

    @property
    def noun(self) -> str:
        """The sort, for people."""
        return {"global": "global service", "set": "service set"}.get(self, "managed namespace")
