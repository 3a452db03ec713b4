"""The agent's memory of its services: what is due, and whose an object is."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from core.spec.bundle import KubeObject
from core.spec.desired import BundleSpec, Desired
from core.spec.fences import ServiceFence
from core.spec.health import HealthRule, HealthState
from core.spec.objects import GroupVersionKind, ObjectRef
from core.spec.status import Problem, StageTimes
from core.spec.sync import SyncOptions
from syncagent.domain.observed.inventory import OwnedObject, child_of
from syncagent.ports import StoredService
from syncagent.reconcile.registry import ServiceRegistry, ServiceState

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
DEPLOYMENT = ObjectRef("apps", "v1", "Deployment", "prod", "web")
HOOK = ObjectRef("batch", "v1", "Job", "jobs", "migrate")
APPLIED = StageTimes(applied=datetime(2026, 12, 1, tzinfo=UTC))


def config(name: str, namespace: str = "prod") -> ObjectRef:
    return ObjectRef("", "v1", "ConfigMap", namespace, name)


def desired(
    service_id: str = "s", sequence: int = 1, options: SyncOptions | None = None
) -> Desired:
    spec = BundleSpec(f"name-{service_id}", "prod", "digest", 1, options=options or SyncOptions())
    return Desired(service_id, sequence, spec)


def registry_of(*services: ServiceState) -> ServiceRegistry:
    registry = ServiceRegistry()
    for service in services:
        registry.put(service)
    return registry


def applied(service_id: str, ref: ObjectRef, uid: str) -> OwnedObject:
    return OwnedObject(service_id, ref, uid, "applied", "live")


def pod(uid: str, owner: str) -> KubeObject:
    reference = {"uid": owner, "controller": True}
    meta = {"name": uid, "namespace": "prod", "uid": uid, "ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}


def claimed(name: str, service: str) -> KubeObject:
    """An object as the agent of an installation has applied it."""
    fields = {"f:metadata": {"f:labels": {"f:towline.dev/service": {}}}}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": "prod",
            "labels": {"towline.dev/service": service},
            "annotations": {
                "towline.dev/service-name": "theirs",
                "towline.dev/object": f"ConfigMap./prod/{name}",
            },
            "managedFields": [{"manager": "towline", "operation": "Apply", "fieldsV1": fields}],
        },
    }


def synced() -> ServiceState:
    """A service with nothing left to do."""
    state = ServiceState(desired(), desired(), stamps=APPLIED, tried=1)
    registry_of(state).add(state, applied("s", config("a"), "1"))
    return state


def test_a_service_whose_objects_are_all_applied_is_not_due() -> None:
    assert not synced().due


@pytest.mark.parametrize("change", ["generation", "failure", "object", "departure"])
def test_a_service_with_open_work_is_due(change: str) -> None:
    state = synced()
    (owned,) = state.owned.values()
    if change == "generation":
        state.desired = desired(sequence=2)
    elif change == "failure":
        state.failures[None] = Problem("no bundle")
    elif change == "object":
        owned.needs_apply = True
    else:
        owned.leaving = True
    assert state.due


def test_a_sync_that_a_restart_interrupted_is_due() -> None:
    """Its intent is stored, but not the end of its applies."""
    state = ServiceState(desired(), desired())
    assert state.due
    state.tried = 1
    assert not state.due
    state.tried, state.stamps = 0, APPLIED
    assert not state.due


def test_a_paused_or_terminated_service_is_not_due_whatever_is_open() -> None:
    terminated = ServiceState(desired(), stopped=1)
    assert not terminated.due
    terminated.desired = desired(sequence=2)
    assert terminated.due
    spec = desired().spec
    assert spec is not None
    assert not ServiceState(replace(desired(), spec=replace(spec, paused=True))).due


def test_a_service_of_a_project_bears_its_name() -> None:
    assert ServiceState(replace(desired(), fence=ServiceFence("shop"))).project == "shop"
    assert ServiceState(desired()).project == ""


def test_a_dry_run_is_due_until_it_has_its_plan() -> None:
    spec = desired().spec
    assert spec is not None
    state = ServiceState(replace(desired(), spec=replace(spec, dry_run=True)))
    assert state.due
    state.tried = 1
    assert not state.due
    state.failures[None] = Problem("the API server is overloaded")
    assert state.due


def test_a_service_that_is_removed_keeps_the_rules_of_its_last_bundle() -> None:
    """The health of objects is reported until they are gone."""
    rules = (HealthRule("", "ConfigMap", HealthState.FAILED),)
    last = desired(options=SyncOptions(health_rules=rules))
    assert ServiceState(last).rules == rules
    assert ServiceState(Desired("s", 2), last).rules == rules
    assert ServiceState(Desired("s", 2)).rules == ()
    assert ServiceState(Desired("s", 2)).name == "s"


def test_a_service_is_unseen_until_all_of_its_objects_were_observed() -> None:
    state = ServiceState(desired())
    registry = registry_of(state)
    for name in ("a", "b"):
        registry.add(state, applied("s", config(name), name))
    for owned in state.owned.values():
        assert state.unseen
        owned.seen = True
    assert not state.unseen


def test_after_a_restart_only_objects_that_were_not_applied_are_open() -> None:
    registry = ServiceRegistry()
    rows = [applied("s", config("a"), "1"), OwnedObject("s", config("b"))]
    strange = applied("gone", config("c"), "3")
    registry.restore([StoredService(desired(), desired(), APPLIED)], [*rows, strange])
    state = registry.get("s")
    assert state is not None
    assert [owned.needs_apply for owned in state.owned.values()] == [False, True]
    assert registry.owner_of_key(config("c").key) is None


def test_descendants_belong_to_the_service_of_their_root() -> None:
    state = ServiceState(desired())
    registry = registry_of(state)
    registry.add(state, applied("s", DEPLOYMENT, "root"))
    registry.tree.put(child_of(pod("pod", "root")))
    assert registry.service_of_descendant("pod") is state
    registry.drop(state, state.owned[DEPLOYMENT.key])
    assert registry.service_of_descendant("pod") is None
    assert registry.tree.get("pod") is None
    assert registry.owner_of_key(DEPLOYMENT.key) is None and not state.owned


def test_an_object_that_changed_hands_stays_with_its_new_service() -> None:
    """The earlier owner may drop it later."""
    earlier, later = ServiceState(desired("a")), ServiceState(desired("b"))
    registry = registry_of(earlier, later)
    registry.add(earlier, applied("a", DEPLOYMENT, "root"))
    registry.add(later, applied("b", DEPLOYMENT, "root"))
    registry.drop(earlier, earlier.owned[DEPLOYMENT.key])
    assert registry.owner_of_key(DEPLOYMENT.key) is later
    assert registry.service_of_descendant("root") is later


def test_pods_of_a_running_hook_belong_to_its_service() -> None:
    state = ServiceState(desired())
    registry = registry_of(state)
    hook = registry.add_hook(state, HOOK, "job")
    assert registry.add_hook(state, HOOK, "job") is hook
    assert registry.uid_of(HOOK.key) == "job"
    registry.tree.put(child_of(pod("pod", "job")))
    assert registry.service_of_descendant("pod") is state
    assert registry.add_hook(state, HOOK, "again") is not hook
    assert registry.service_of_descendant("pod") is None, "of an earlier attempt"
    registry.end_hook(HOOK.key)
    assert registry.service_of_descendant("again") is None
    assert registry.hook(HOOK.key) is None and registry.hook_diagnosis(HOOK.key) == ""


def test_removing_a_service_ends_its_hooks_only() -> None:
    leaving, staying = ServiceState(desired("a")), ServiceState(desired("b"))
    registry = registry_of(leaving, staying)
    registry.add_hook(leaving, HOOK, "of a")
    other = replace(HOOK, name="other")
    registry.add_hook(staying, other, "of b")
    registry.add(leaving, applied("a", config("a"), "1"))
    registry.remove(leaving)
    assert list(registry) == [staying]
    assert registry.hook(HOOK.key) is None and registry.hook(other.key) is not None
    assert registry.owner_of_key(config("a").key) is None


def test_kinds_and_namespaces_to_watch_include_those_of_hooks() -> None:
    state = ServiceState(desired())
    registry = registry_of(state)
    registry.add(state, applied("s", config("a"), "1"))
    registry.add(state, applied("s", config("b", "dev"), "2"))
    registry.add_hook(state, HOOK, "job")
    assert registry.apis() == {CONFIG_MAP, HOOK.api}
    assert registry.namespaces_of(CONFIG_MAP) == {"prod", "dev"}
    assert registry.namespaces_of(HOOK.api) == {"jobs"}
    state.failures = {None: Problem("bundle"), DEPLOYMENT.key: Problem("refused")}
    assert registry.awaited_kinds() == {("apps", "Deployment")}


def test_an_object_that_is_given_up_goes_to_a_waiting_service_that_stays() -> None:
    holder, leaving = ServiceState(desired("a")), ServiceState(Desired("b", 2))
    waiting, key = ServiceState(desired("c")), DEPLOYMENT.key
    registry = registry_of(holder, leaving, waiting)
    holder.conflicting_objects = leaving.conflicting_objects = frozenset({key})
    assert registry.adopting_service(holder, key) is None
    waiting.conflicting_objects = frozenset({key})
    assert registry.adopting_service(holder, key) is waiting


def test_claims_of_other_installations_are_forgotten_with_their_labels() -> None:
    registry = registry_of(ServiceState(desired("ours")))
    assert not registry.record_foreign_claim(claimed("a", "ours"))
    assert registry.record_foreign_claim(claimed("a", "theirs-id"))
    conflict = registry.conflicting_owner(ServiceState(desired("ours")), config("a"))
    assert "theirs (theirs-id) of another Towline installation" in conflict
    plain = {**claimed("a", "x"), "metadata": {"name": "a", "namespace": "prod"}}
    assert not registry.record_foreign_claim(plain)
    assert registry.foreign_claims == {}


def test_claims_of_other_installations_are_bounded() -> None:
    """Labels cost nothing: anyone who may write ConfigMaps can set them."""
    registry = registry_of()
    for number in range(10_010):
        assert registry.record_foreign_claim(claimed(f"n{number}", "theirs-id"))
    assert len(registry.foreign_claims) == 10_000
    registry.record_foreign_claim(claimed("n0", "another-id"))
    assert "another-id" in registry.foreign_claims[config("n0").key]
    assert len(registry.foreign_claims) == 10_000
