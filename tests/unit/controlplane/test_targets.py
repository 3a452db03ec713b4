"""Targets of definitions, for any fleet, and results that must never occur."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.generators.model.plan import (
    ExistingServices,
    GeneratedService,
    GeneratorEvaluation,
    Place,
    TargetPlan,
    changed_columns,
    plan_changes,
)
from controlplane.services.model.service import Service, ServiceSpec
from controlplane.services.model.templates import ServiceTemplate
from core.identity import ClusterId, ServiceId

_THEN = datetime(2026, 1, 1, tzinfo=UTC)
_CLUSTERS = [f"c{n}" for n in range(6)]
_NAMES = ["web", "api"]

places = st.tuples(st.sampled_from(_CLUSTERS), st.sampled_from(_NAMES))


def wanted(place: Place, ref: str = "main") -> GeneratedService:
    return GeneratedService(
        place[0], ServiceTemplate(place[1], "shop", "repository", ServiceSpec(ref))
    )


def service(place: Place, ref: str = "main") -> Service:
    id = ServiceId("/".join(place))
    template = wanted(place, ref).template
    columns = {k: v for k, v in template.columns().items() if k not in ("name", "namespace")}
    return Service(
        id,
        ClusterId(place[0]),
        name=place[1],
        namespace="shop",
        inserted_at=_THEN,
        updated_at=_THEN,
        repository_id=None,
    ).changed(**columns)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[GeneratorEvaluation, ExistingServices, int]:
    """Any wishes, on any fleet."""
    refs = st.sampled_from(["main", "next"])
    wishes = draw(st.lists(st.tuples(places, refs), max_size=12))
    owned = draw(st.dictionaries(places, refs, max_size=12))
    taken = draw(st.sets(places, max_size=4)) - owned.keys()
    frozen = draw(st.sets(st.sampled_from(_CLUSTERS), max_size=2))
    problems = draw(st.sampled_from([(), ("the repository is away",)]))
    evaluation = GeneratorEvaluation(tuple(wanted(*one) for one in wishes), problems)
    present = ExistingServices([service(*one) for one in owned.items()], taken, frozen)
    return evaluation, present, draw(st.integers(0, 12))


def carried_out(plan: TargetPlan, present: ExistingServices) -> dict[Place, str]:
    """The services with their refs after a plan."""
    after: dict[Place, str] = {(one.cluster_id, one.name): one.spec.ref for one in present.owned}
    after |= {one.place: one.template.spec.ref for one in plan.create}
    after |= {one.place: one.template.spec.ref for _, one in plan.update}
    for one in plan.remove:
        del after[one.cluster_id, one.name]
    return after


@settings(max_examples=40)
@given(worlds())
def test_a_plan_leads_to_what_is_wanted_but_for_what_it_names(
    world: tuple[GeneratorEvaluation, ExistingServices, int],
) -> None:
    evaluation, present, most = world
    plan = plan_changes(evaluation, present, most)
    after = carried_out(plan, present)
    wishes: dict[Place, str] = {}
    for one in evaluation.services:
        wishes.setdefault(one.place, one.template.spec.ref)
    excused = {one.place for one in plan.collisions} | set(plan.frozen)
    withheld = {(one.cluster_id, one.name) for one in plan.withheld}
    for place in (wishes.keys() | after.keys()) - excused - withheld:
        assert after.get(place) == wishes.get(place)


@settings(max_examples=40)
@given(worlds())
def test_an_incomplete_evaluation_never_removes(
    world: tuple[GeneratorEvaluation, ExistingServices, int],
) -> None:
    evaluation, present, most = world
    incomplete = GeneratorEvaluation(evaluation.services, ("the database went away",))
    assert plan_changes(incomplete, present, most).remove == ()


@settings(max_examples=40)
@given(worlds())
def test_no_more_is_removed_than_allowed_and_nothing_by_half(
    world: tuple[GeneratorEvaluation, ExistingServices, int],
) -> None:
    evaluation, present, most = world
    plan = plan_changes(evaluation, present, most)
    assert len(plan.remove) <= most
    assert not (plan.remove and plan.withheld)


@settings(max_examples=40)
@given(worlds())
def test_frozen_clusters_and_places_of_others_are_left_alone(
    world: tuple[GeneratorEvaluation, ExistingServices, int],
) -> None:
    evaluation, present, most = world
    plan = plan_changes(evaluation, present, most)
    touched = [one.place for one in plan.create] + [one.place for _, one in plan.update]
    touched += [(one.cluster_id, one.name) for one in plan.remove]
    assert not {cluster for cluster, _ in touched} & set(present.frozen)
    assert not set(touched) & set(present.occupied)
    assert len(touched) == len(set(touched)) == plan.size


@settings(max_examples=40)
@given(worlds())
def test_a_second_plan_has_nothing_to_do(
    world: tuple[GeneratorEvaluation, ExistingServices, int],
) -> None:
    evaluation, present, most = world
    first = carried_out(plan_changes(evaluation, present, most), present)
    then = ExistingServices(
        [service(*one) for one in first.items()], present.occupied, present.frozen
    )
    again = plan_changes(evaluation, then, most)
    assert not again.create and not again.update and not again.remove


def test_changed_columns_are_named() -> None:
    before = service(("c1", "web"))
    assert changed_columns(before, wanted(("c1", "web"))) == {}
    assert changed_columns(before, wanted(("c1", "web"), "next")) == {"ref": "next"}


def test_two_wishes_for_one_place_are_a_collision() -> None:
    plan = plan_changes(
        GeneratorEvaluation((wanted(("c1", "web")), wanted(("c1", "web"), "x"))),
        ExistingServices(),
        9,
    )
    assert len(plan.create) == 1 and len(plan.collisions) == 1
