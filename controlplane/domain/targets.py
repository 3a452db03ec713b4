"""From what a definition wants to what has to be done; pure, and careful with removals.

`desired` never plans a removal from an incomplete evaluation, nor more of them than allowed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.domain.clusters import Cluster
from controlplane.domain.services import Service
from controlplane.domain.templates import FIELDS, Override, ServiceTemplate, effective
from fleet.identity import ServiceId
from fleet.source import Rendered

Place = tuple[str, str]
"""The id of a cluster, and a service's name there."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A service that there should be. `content`: its bundle, where no repository has it."""

    cluster_id: str
    template: ServiceTemplate
    content: Rendered | None = None

    @property
    def place(self) -> Place:
        return (self.cluster_id, self.template.name)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is wanted, as far as it could be found out; `problems` make it incomplete."""

    wanted: tuple[Wanted, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """What has to be done. `withheld` removals wait for a person, or for a complete look.

    `collisions` are wanted places that another service has, `frozen` are those that must stay
    as they are for now.
    """

    create: tuple[Wanted, ...] = ()
    update: tuple[tuple[Service, Wanted], ...] = ()
    remove: tuple[Service, ...] = ()
    withheld: tuple[Service, ...] = ()
    collisions: tuple[Wanted, ...] = ()
    frozen: tuple[Place, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """How many services change."""
        return len(self.create) + len(self.update) + len(self.remove)


@dataclass(frozen=True, slots=True)
class Present:
    """What there is: services of the definition, places that others have, frozen clusters.

    `uses` has the ids of the secrets of each service by name.
    """

    owned: Sequence[Service] = ()
    taken: Collection[Place] = ()
    frozen: Collection[str] = field(default_factory=frozenset)
    uses: Mapping[ServiceId, Mapping[str, str]] = field(default_factory=dict)

    def differs(self, service: Service, wanted: Wanted) -> bool:
        """Whether a service is not as it is wanted."""
        secrets = wanted.template.secrets
        others = secrets is not None and secrets != self.uses.get(service.id, {})
        return others or bool(changed_columns(service, wanted))


def desired(evaluation: Evaluation, present: Present, most_removals: int) -> TargetPlan:
    """The plan: afterwards exactly what is wanted is there, but for what the plan names."""
    wanted, doubled = _by_place(evaluation.wanted)
    owned: dict[Place, Service] = {(one.cluster_id, one.name): one for one in present.owned}
    create, collisions = [], list(doubled)
    for place, one in wanted.items():
        if place not in owned:
            (collisions if place in present.taken else create).append(one)
    update = [
        (owned[p], one)
        for p, one in wanted.items()
        if p in owned and present.differs(owned[p], one)
    ]
    surplus = [one for place, one in owned.items() if place not in wanted]
    still = [one for one in create if one.cluster_id not in present.frozen]
    moving = [pair for pair in update if pair[0].cluster_id not in present.frozen]
    going = [one for one in surplus if one.cluster_id not in present.frozen]
    halted = {p for p in (*wanted, *owned) if p[0] in present.frozen}
    held = bool(evaluation.problems or collisions) or len(going) > most_removals
    return TargetPlan(
        create=tuple(still),
        update=tuple(moving),
        remove=() if held else tuple(going),
        withheld=tuple(going) if held else (),
        collisions=tuple(collisions),
        frozen=tuple(sorted(halted & _touched(create, update, surplus))),
        problems=evaluation.problems,
    )


def stamped(
    template: ServiceTemplate,
    clusters: Sequence[Cluster],
    overrides: Mapping[str, Override],
) -> tuple[Wanted, ...]:
    """One service a cluster, each with what that cluster has otherwise."""
    return tuple(Wanted(one.id, effective(template, overrides.get(one.id))) for one in clusters)


def changed_columns(service: Service, wanted: Wanted) -> dict[str, object]:
    """The fields of a service that are not as wanted."""
    columns = {name: getattr(wanted.template, name) for name in FIELDS}
    if wanted.content is not None:
        columns["digest"] = wanted.content.digest
    return {name: value for name, value in columns.items() if getattr(service, name) != value}


def _by_place(wanted: Collection[Wanted]) -> tuple[dict[Place, Wanted], list[Wanted]]:
    """The first of each place, and those that want a place a second time."""
    found: dict[Place, Wanted] = {}
    doubled = [one for one in wanted if found.setdefault(one.place, one) is not one]
    return found, doubled


def _touched(
    create: Collection[Wanted],
    update: Collection[tuple[Service, Wanted]],
    surplus: Collection[Service],
) -> set[Place]:
    places = {one.place for one in create} | {one.place for _, one in update}
    return places | {(one.cluster_id, one.name) for one in surplus}
