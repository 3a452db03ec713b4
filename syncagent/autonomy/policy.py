"""Allow-lists of objects and sources, set in the cluster only."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from core.errors import Invalid
from core.spec.objects import ObjectRef
from core.spec.statements.attestation import AttestationStatement, SignedSource
from syncagent.domain.tenants import TenantPolicy


@dataclass(frozen=True, slots=True)
class LocalPolicy:
    """Allow-lists of objects that the agent writes; an empty list allows all.
    `kinds` are `Kind.group` (`Deployment.apps`, `Secret`), with `*` for all kinds of a group
    (`*.apps`). If `namespaces` are listed, cluster-wide objects need a kind that is listed by name;
    a Namespace is also allowed if it is one of these.
    """

    kinds: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()

    @classmethod
    def of(cls, kinds: Iterable[str], namespaces: Iterable[str]) -> "LocalPolicy":
        return cls(frozenset(kinds), frozenset(namespaces))

    def check(self, ref: ObjectRef) -> None:
        """Raises Invalid for an object that the agent must not write."""
        name = f"{ref.kind}.{ref.group}" if ref.group else ref.kind
        listed = name in self.kinds
        if self.kinds and not listed and f"*.{ref.group}" not in self.kinds:
            raise _not_allowed(ref, f"objects of the kind {name}")
        if not self.namespaces or (ref.namespace and ref.namespace in self.namespaces):
            return
        if ref.namespace:
            raise _not_allowed(ref, f"objects in the namespace {ref.namespace}")
        if listed or (name == "Namespace" and ref.name in self.namespaces):
            return
        raise _not_allowed(ref, "cluster-wide objects of kinds that are not listed by name")


@dataclass(frozen=True, slots=True)
class AllowedSource:
    """A repository or registry that may supply the services of a namespace; `folder`: only from
    within it, or the chart of this name."""

    namespace: str
    url: str
    folder: PurePosixPath

    def allows(self, namespace: str, source: SignedSource) -> bool:
        """Reports whether this entry covers a source of a service of `namespace`."""
        path = PurePosixPath(source.path)
        return (
            self.namespace in ("*", namespace)
            and self.url == _normalized(source.url)
            and path.is_relative_to(self.folder)
            and ".." not in path.parts
        )


@dataclass(frozen=True, slots=True)
class SourcePolicy:
    """Allow-list of sources for each namespace's services; an empty list allows all.
    Every source of a bundle must be listed. `values`: digests of values of the API that bundles may
    contain, `*` for any. It is checked against the signed statement only, never against other data
    of the control plane. `tenants` may ask for signatures of the sources themselves.
    """

    sources: tuple[AllowedSource, ...] = ()
    values: frozenset[str] = frozenset()
    tenants: TenantPolicy = TenantPolicy()

    @classmethod
    def of(cls, texts: Iterable[str], values: Iterable[str] = ()) -> "SourcePolicy":
        """Parses `NAMESPACE=URL` or `NAMESPACE=URL#FOLDER`, with `*` for every namespace.
        Invalid.
        """
        return cls(tuple(_parse_source(text) for text in texts), frozenset(values))

    def check(self, namespace: str, statement: AttestationStatement) -> None:
        """Raises Invalid if an input of the bundle is not allowed for services of `namespace`."""
        if not self.sources:
            return
        if not statement.sources:
            raise _source_refusal(namespace, "no source")
        for source in statement.sources:
            if not any(entry.allows(namespace, source) for entry in self.sources):
                where = f"{source.url}, folder {source.path or '/'}"
                raise _source_refusal(namespace, where)
        if statement.values and not self.values & {"*", statement.values}:
            raise Invalid(
                f"the bundle contains values of the API ({statement.values}): this agent's own "
                "settings (autonomy.values) do not list them. Only the cluster's operator can "
                "allow them"
            )


@dataclass(frozen=True, slots=True)
class JobPolicy:
    """Policy for jobs of the control plane.
    `objects`: allow-list for the job and for the Secret that it needs.
    """

    objects: LocalPolicy
    enabled: bool = True

    def check(self, refs: Iterable[ObjectRef]) -> None:
        """Raises Invalid for a job that must not run; `refs`: all objects that it would create."""
        if not self.enabled:
            raise Invalid("this agent's own settings turn jobs off (autonomy.jobs)")
        for ref in refs:
            self.objects.check(ref)


def _parse_source(text: str) -> AllowedSource:
    namespace, _, rest = text.partition("=")
    repository, _, folder = rest.partition("#")
    if not namespace or not repository:
        raise Invalid(
            f"{text!r} is not a valid source; expected NAMESPACE=URL or NAMESPACE=URL#FOLDER",
            field="autonomy.sources",
        )
    return AllowedSource(namespace, _normalized(repository), PurePosixPath(folder.strip("/")))


def _source_refusal(namespace: str, where: str) -> Invalid:
    return Invalid(
        f"services of the namespace {namespace} may not come from {where}: this agent's own "
        "settings (autonomy.sources) do not list it. Only the cluster's operator can allow it"
    )


def _normalized(repository: str) -> str:
    """Normalizes the end of a URL."""
    return repository.rstrip("/").removesuffix(".git")


def _not_allowed(ref: ObjectRef, what: str) -> Invalid:
    return Invalid(
        f"{ref} is refused by this agent's own settings: it does not write {what}. Only the "
        "cluster's operator can allow it"
    )
