"""Which objects this agent writes at all, whoever asks; set in the cluster only."""

from collections.abc import Iterable
from dataclasses import dataclass

from fleet.errors import Invalid
from syncagent.domain.objects import ObjectRef


@dataclass(frozen=True, slots=True)
class LocalPolicy:
    """Allow-lists; an empty one allows all.

    `kinds` are `Kind.group` (`Deployment.apps`, `Secret`), with `*` for all of a group
    (`*.apps`). Where `namespaces` are listed, cluster-wide objects are written only if their
    kind is listed by name; a Namespace also if it is one of these.
    """

    kinds: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()

    @classmethod
    def of(cls, kinds: Iterable[str], namespaces: Iterable[str]) -> "LocalPolicy":
        return cls(frozenset(kinds), frozenset(namespaces))

    def check(self, ref: ObjectRef) -> None:
        """Raise Invalid for an object that is not to be written."""
        name = f"{ref.kind}.{ref.group}" if ref.group else ref.kind
        listed = name in self.kinds
        if self.kinds and not listed and f"*.{ref.group}" not in self.kinds:
            raise _refusal(ref, f"objects of the kind {name}")
        if not self.namespaces or (ref.namespace and ref.namespace in self.namespaces):
            return
        if ref.namespace:
            raise _refusal(ref, f"objects in the namespace {ref.namespace}")
        if listed or (name == "Namespace" and ref.name in self.namespaces):
            return
        raise _refusal(ref, "cluster-wide objects of kinds that are not listed by name")


@dataclass(frozen=True, slots=True)
class JobPolicy:
    """Which jobs of the control plane run here at all.

    `objects`: the allow-list, which holds for the job and for the Secret that it needs.
    `signed_only`: there are trusted keys, so what nobody has signed is not run; no job is signed.
    """

    objects: LocalPolicy
    enabled: bool = True
    signed_only: bool = False

    def check(self, refs: Iterable[ObjectRef]) -> None:
        """Raise Invalid for a job that is not to run; `refs`: all that it would create."""
        if not self.enabled:
            raise Invalid("this agent's own settings turn jobs off (autonomy.jobs)")
        if self.signed_only:
            raise Invalid(
                "this agent takes only what its trusted keys have signed, and jobs are not signed; "
                "its cluster's operator can allow them (autonomy.unsigned_jobs)"
            )
        for ref in refs:
            self.objects.check(ref)


def _refusal(ref: ObjectRef, what: str) -> Invalid:
    return Invalid(
        f"{ref} is refused by this agent's own settings: it does not write {what}. Only its "
        "cluster's operator can allow it"
    )
