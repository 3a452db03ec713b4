"""Use of a project's fence: the services that each rule lets through, and those that it refuses."""

from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.access.model.bindings import Project
from controlplane.access.operations.scopes import find_project
from controlplane.authorization import Actor, DestinationRule, Fence, SourceRule, Verb, require
from controlplane.platform.context import StoreOperations
from controlplane.services.operations.fences import (
    FencedService,
    fenced_services,
    services_of_project,
)

_MAX_NAMES = 100


@dataclass(frozen=True, slots=True)
class FenceRuleUse:
    """A rule of a fence, and the services that it lets through today."""

    title: str
    """URL of a source, or clusters of a destination."""
    note: str
    """Other conditions of the rule, for people. Empty: there are none."""
    count: int
    """Number of services that the rule lets through. 0: the rule is unused."""
    services: tuple[str, ...]
    """Their names as CLUSTER/NAME. Limit: 100."""


@dataclass(frozen=True, slots=True)
class FenceRefusal:
    """A service outside the fence."""

    service: str
    """Name as CLUSTER/NAME."""
    reason: str
    """Reason why no rule lets the service through."""


@dataclass(frozen=True, slots=True)
class FenceUse:
    """Use of a project's fence by the services that the caller can read."""

    project: Project
    sources: tuple[FenceRuleUse, ...]
    """Rules of sources. Empty: no source is allowed, or all are."""
    destinations: tuple[FenceRuleUse, ...]
    """Rules of destinations. Empty: no destination is allowed, or all are."""
    refusals: tuple[FenceRefusal, ...]
    """Services outside the fence. Limit: 100."""


class FenceUses(StoreOperations):
    """Shows the use of fences."""

    async def of_project(self, actor: Actor, id: str) -> FenceUse:
        """The use of a project's fence. NotFound, Forbidden."""
        async with self._context.read(actor) as tx:
            project = await find_project(tx, id)
            require(actor, Verb.READ, project.target)
            services = [
                service
                for service in await services_of_project(tx, project)
                if actor.may(Verb.READ, service.target)
            ]
            fenced = await fenced_services(tx, services)
        fence = project.fence
        return FenceUse(
            project,
            tuple(_source_use(rule, fenced) for rule in fence.sources),
            tuple(_destination_use(rule, fence, fenced) for rule in fence.destinations),
            tuple(_refusals(fenced)),
        )


def _source_use(rule: SourceRule, fenced: Iterable[FencedService]) -> FenceRuleUse:
    names = [row.title for row in fenced if any(rule.allows(source) for source in row.sources)]
    notes = [
        f"{title} {', '.join(values)}"
        for title, values in (
            ("folders", rule.folders),
            ("refs", rule.refs),
            ("charts", rule.charts),
            ("signed by", rule.signed_by),
        )
        if values
    ]
    return _use(rule.url, "; ".join(notes), names)


def _destination_use(
    rule: DestinationRule, fence: Fence, fenced: Iterable[FencedService]
) -> FenceRuleUse:
    names = [
        row.title for row in fenced if fence.destination(row.cluster, row.service.namespace) is rule
    ]
    account = f"as {rule.service_account}" if rule.service_account else "as the agent itself"
    note = f"namespaces {', '.join(rule.namespaces)}; {account}"
    return _use(str(rule), note, names)


def _refusals(fenced: Iterable[FencedService]) -> list[FenceRefusal]:
    refused = [FenceRefusal(row.title, reason) for row in fenced if (reason := row.refusal())]
    return sorted(refused, key=lambda refusal: refusal.service)[:_MAX_NAMES]


def _use(title: str, note: str, names: list[str]) -> FenceRuleUse:
    return FenceRuleUse(title, note, len(names), tuple(sorted(names)[:_MAX_NAMES]))
