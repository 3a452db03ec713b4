"""Which objects this agent writes at all, from where and whoever asks; set in the cluster only."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from fleet.attestation import Statement
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
class Source:
    """A repository from which a namespace's services may come; `folder`: only from within it."""

    namespace: str
    repository: str
    folder: PurePosixPath

    def allows(self, namespace: str, statement: Statement) -> bool:
        """Whether this is where the bundle of a service of `namespace` is from."""
        folder = PurePosixPath(statement.folder)
        return (
            self.namespace in ("*", namespace)
            and self.repository == _plain(statement.repository)
            and folder.is_relative_to(self.folder)
            and ".." not in folder.parts
        )


@dataclass(frozen=True, slots=True)
class SourcePolicy:
    """Which repositories may bring which namespace's services; empty: any may.

    It is checked against what is signed, never against what the control plane says besides.
    """

    sources: tuple[Source, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str]) -> "SourcePolicy":
        """From `NAMESPACE=URL` or `NAMESPACE=URL#FOLDER`, `*` for every namespace. Invalid."""
        return cls(tuple(_source(text) for text in texts))

    def check(self, namespace: str, statement: Statement) -> None:
        """Raise Invalid if a service of `namespace` is not to come from where it is from."""
        if not self.sources or any(one.allows(namespace, statement) for one in self.sources):
            return
        where = f"{statement.repository or '(no repository)'}, folder {statement.folder or '/'}"
        raise Invalid(
            f"services of the namespace {namespace} are not to come from {where}: this agent's own "
            "settings (autonomy.sources) do not list it. Only its cluster's operator can allow it"
        )


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


def _source(text: str) -> Source:
    namespace, _, rest = text.partition("=")
    repository, _, folder = rest.partition("#")
    if not namespace or not repository:
        raise Invalid(
            f"{text!r} is no source of services: NAMESPACE=URL, or NAMESPACE=URL#FOLDER",
            field="autonomy.sources",
        )
    return Source(namespace, _plain(repository), PurePosixPath(folder.strip("/")))


def _plain(repository: str) -> str:
    """A URL without what makes no difference at its end."""
    return repository.rstrip("/").removesuffix(".git")


def _refusal(ref: ObjectRef, what: str) -> Invalid:
    return Invalid(
        f"{ref} is refused by this agent's own settings: it does not write {what}. Only its "
        "cluster's operator can allow it"
    )
