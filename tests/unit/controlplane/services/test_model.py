"""Rules of the model: status, problems, templates, and the decision to render."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.authorization import Resource, ResourceKind
from controlplane.services.model.blame import MAX_FIELDS, managed_fields
from controlplane.services.model.live_state import parse_events, redact_object
from controlplane.services.model.render_state import RenderState
from controlplane.services.model.service import Component, OwnerKind, ServiceSpec
from controlplane.services.model.status_codes import ServiceStatus, StatusCode, status_codes_of
from controlplane.services.model.templates import (
    OverrideDelta,
    ServiceTemplate,
    TemplateOverride,
    apply_override,
    override_delta,
)
from controlplane.services.model.verification import Quarantine
from core.identity import ClusterId, RepositoryId, ServiceId
from core.spec.image_signatures import SignatureRules
from core.spec.objects import ObjectRef
from core.spec.source import SourceFolder
from core.spec.source_signatures import SignatureRule
from core.spec.status import Phase, Problem
from core.spec.sync import Removal
from core.spec.verification import Verification
from tests.fakes.clock import START
from tests.fakes.operations import make_cluster, make_service

DEV = make_cluster("dev")
HEALTHY = make_service(
    "web",
    DEV,
    digest="sha256:new",
    generation=2,
    observed_generation=2,
    phase=Phase.HEALTHY,
)
BAD = Quarantine("sha256:bad", "crashes", START, "sha256:good")


@pytest.mark.parametrize(
    ("columns", "code", "status"),
    [
        ({}, StatusCode.HEALTHY, ServiceStatus.HEALTHY),
        ({"phase": Phase.APPLIED}, StatusCode.SYNCED, ServiceStatus.SYNCED),
        ({"phase": Phase.AWAITING}, StatusCode.AWAITING, ServiceStatus.AWAITING_APPROVAL),
        ({"phase": Phase.APPLIED, "dry_run": True}, StatusCode.DRY_RUN, ServiceStatus.DRY_RUN),
        ({"phase": Phase.FAILED, "dry_run": True}, StatusCode.FAILED, ServiceStatus.FAILED),
        ({"phase": Phase.DEGRADED}, StatusCode.FAILED, ServiceStatus.FAILED),
        ({"phase": Phase.APPLYING}, StatusCode.PROGRESSING, ServiceStatus.STALE),
        ({"phase": None}, StatusCode.PROGRESSING, ServiceStatus.STALE),
        ({"generation": 3}, StatusCode.OUT_OF_SYNC, ServiceStatus.OUT_OF_SYNC),
        ({"digest": None}, StatusCode.PROGRESSING, ServiceStatus.STALE),
        ({"waiting": True}, StatusCode.OUT_OF_SYNC, ServiceStatus.OUT_OF_SYNC),
        ({"digest": None, "waiting": True}, StatusCode.PROGRESSING, ServiceStatus.STALE),
        ({"drifted": 1}, StatusCode.DRIFTED, ServiceStatus.DRIFTED),
        ({"drifted": 1, "phase": Phase.APPLIED}, StatusCode.DRIFTED, ServiceStatus.DRIFTED),
        ({"drifted": 1, "phase": Phase.DEGRADED}, StatusCode.FAILED, ServiceStatus.FAILED),
        ({"drifted": 1, "generation": 3}, StatusCode.OUT_OF_SYNC, ServiceStatus.OUT_OF_SYNC),
        ({"drifted": 1, "paused": True}, StatusCode.PAUSED, ServiceStatus.PAUSED),
        ({"drifted": 1, "pinned_sha": "a"}, StatusCode.DRIFTED, ServiceStatus.DRIFTED),
        ({"pinned_sha": "a"}, StatusCode.PINNED, ServiceStatus.PINNED),
        ({"pinned_sha": "a", "promoted": True}, StatusCode.HEALTHY, ServiceStatus.HEALTHY),
        ({"pinned_sha": "a", "phase": Phase.APPLIED}, StatusCode.SYNCED, ServiceStatus.SYNCED),
        ({"waiting": True, "render_error": "x"}, StatusCode.FAILED, ServiceStatus.FAILED),
        ({"paused": True, "render_error": "x"}, StatusCode.PAUSED, ServiceStatus.PAUSED),
    ],
)
def test_the_status_follows_from_the_fields(
    columns: dict[str, Any], code: StatusCode, status: ServiceStatus
) -> None:
    service = HEALTHY.changed(**columns)
    assert (service.status_code, service.status) == (code, status)


def test_drift_and_pins_hold_neither_gates_nor_dependencies() -> None:
    for columns in ({"drifted": 1}, {"pinned_sha": "a"}):
        assert HEALTHY.changed(**columns).applied_status is ServiceStatus.HEALTHY
        waiting = HEALTHY.changed(waiting=True, **columns)
        assert waiting.applied_status is ServiceStatus.OUT_OF_SYNC


def test_a_filter_by_status_finds_all_its_codes() -> None:
    assert set(status_codes_of([ServiceStatus.STALE, ServiceStatus.PAUSED])) == {"P", "Z"}
    assert status_codes_of([]) == ()


def awaiting(count: int, **columns: Any) -> str:
    names = tuple(ObjectRef("", "v1", "Secret", "shop", f"s{n}") for n in range(count))
    columns = {"phase": Phase.AWAITING, "awaiting": names, **columns}
    (problem,) = HEALTHY.changed(**columns).errors
    return problem.message


def test_a_service_names_all_its_problems() -> None:
    reported = Problem("no quota")
    service = HEALTHY.changed(
        render_error="no chart",
        quarantine=BAD,
        waiting=True,
        dependencies=("db", "mq"),
        problems=(reported,),
    )
    assert [problem.source for problem in service.errors] == [
        "render",
        "verification",
        "dependencies",
        "sync",
    ]
    assert service.errors[-1] == reported
    texts = [problem.message for problem in service.withheld_reasons]
    assert texts == [
        "sha256:bad is known to be bad: crashes; it stays at sha256:good",
        "waiting until these services are healthy: db, mq",
    ]
    assert HEALTHY.errors == ()
    assert HEALTHY.changed(quarantine=replace(BAD, lifted_by="ada")).errors == ()
    assert str(replace(BAD, instead="")) == "sha256:bad is known to be bad: crashes"


def test_a_pending_deletion_says_how_to_confirm_it() -> None:
    assert awaiting(1) == (
        "a user must confirm the deletion of Secret shop/s0: run `towline services confirm`, or "
        'annotate it in the cluster with towline.dev/prune: "true"'
    )
    assert "s4 and 1 more:" in awaiting(6)
    assert "s4:" in awaiting(5)
    mirrored = awaiting(1, mirrored=True, removal=Removal.CASCADE)
    assert mirrored.endswith(': annotate it in the cluster with towline.dev/delete: "true"')
    assert HEALTHY.changed(phase=Phase.AWAITING).errors == ()


def test_a_new_digest_ends_the_quarantine_unless_it_has_to_be_verified() -> None:
    ended = {"quarantined": None, "quarantine": None}
    service = HEALTHY.changed(quarantine=BAD)
    verified = service.changed(verification=Verification(60))
    assert HEALTHY.columns_for_digest("sha256:bad") == {}
    assert service.columns_for_digest("sha256:bad") == ended
    assert verified.columns_for_digest("sha256:bad") == {}
    assert verified.columns_for_digest("sha256:other") == ended


def test_the_verification_of_a_stage_takes_precedence() -> None:
    own, staged = Verification(60), Verification(5)
    assert HEALTHY.effective_verification is None
    assert HEALTHY.changed(verification=own).effective_verification == own
    assert (
        HEALTHY.changed(verification=own, stage_verification=staged).effective_verification
        == staged
    )


def test_a_service_renders_its_folder_with_its_sources() -> None:
    source = SourceFolder(RepositoryId("other"), "b" * 40, "x", "y")
    service = make_service(
        "web", DEV, repository_id="fleet", folder="apps", rendered_by="dev", helm={"release": "r"},
        renderer="helm", templated=True,
    )  # fmt: skip
    rules = SignatureRules(sources=(SignatureRule("https://git.example.org/*"),))
    request = service.render_request("a" * 40, {"a": 1}, (source,), rules)
    assert (request.renderer, request.templated, request.signatures) == ("helm", True, rules)
    assert (request.repository_id, request.commit, request.folder) == ("fleet", "a" * 40, "apps")
    assert (request.sources, request.by, request.parameters) == ((source,), "dev", {"a": 1})
    assert request.helm is not None and request.helm.release == "r"
    with pytest.raises(ValueError, match="nothing to render"):
        HEALTHY.render_request("a" * 40, {})


@pytest.mark.parametrize(
    ("written", "path"),
    [("", ""), (".", ""), ("./deploy", "deploy"), ("deploy/", "deploy"), ("/a//b/./", "a/b")],
)
def test_a_render_reads_folders_in_normal_form(written: str, path: str) -> None:
    service = make_service(
        "web", DEV, repository_id="fleet", folder=written, kustomize_path=written
    )
    request = service.render_request("a" * 40, {})
    assert (service.spec.folder, service.spec.kustomize_path) == (written, written)
    assert (request.folder, request.kustomize_path, service.spec.path) == (path, path, path)
    assert list(replace(PINNED, folder=written, reads={}).paths) == [path]


def test_places_of_services_and_objects() -> None:
    service = replace(HEALTHY, project_id="shop")
    cluster = Resource.within(ResourceKind.CLUSTER, "shop", "dev")
    assert service.target == cluster.below(ResourceKind.SERVICE, service.id, "web")
    assert component("Pod", "web").key == ("", "Pod", "shop", "web")
    assert [kind.noun for kind in OwnerKind] == [
        "global service",
        "service set",
        "managed namespace",
    ]


def component(kind: str, name: str) -> Component:
    service, cluster = HEALTHY.id, DEV.id
    return Component(
        name, service, cluster, "", "v1", kind, "shop", name, "u", "", None, "", True, (), START
    )


RENDERED = RenderState(
    ServiceId("s"),
    ClusterId("dev"),
    RepositoryId("fleet"),
    START,
    ref="main",
    folder="apps",
    pinned_sha=None,
    promoted=False,
    commit_sha="a" * 40,
    input_digest="sha256:in",
    reads={"apps": "t1", "base": "t2"},
    render_error=None,
    waiting=False,
    rendered_by=None,
)
PINNED = replace(RENDERED, pinned_sha="a" * 40)


@pytest.mark.parametrize(
    ("state", "ignores"),
    [
        (RENDERED, False),
        (replace(RENDERED, promoted=True), True),
        (replace(PINNED, promoted=True), True),
        (replace(PINNED, promoted=True, input_digest=None), True),
        (replace(PINNED, promoted=True, render_error="x"), True),
        (PINNED, True),
        (replace(PINNED, commit_sha="b" * 40), False),
        (replace(PINNED, input_digest=None), False),
        (replace(PINNED, render_error="x"), False),
    ],
)
def test_a_rendered_pin_or_a_pipeline_ignores_commits(state: RenderState, ignores: bool) -> None:
    assert state.ignores_commits is ignores


@pytest.mark.parametrize(
    ("changes", "ids", "stale"),
    [
        ({}, {"apps": "t1", "base": "t2"}, False),
        ({}, {"apps": "t1", "base": "t3"}, True),
        ({}, {"apps": "t1"}, True),
        ({"waiting": True}, {"apps": "t1", "base": "t2"}, True),
        ({"input_digest": None}, {"apps": "t1", "base": "t2"}, True),
        ({"render_error": "x"}, {"apps": "t1", "base": "t2"}, True),
        ({"reads": {}}, {}, True),
    ],
)
def test_a_service_is_rendered_again_if_an_input_changed(
    changes: dict[str, Any], ids: dict[str, str], stale: bool
) -> None:
    assert replace(RENDERED, **changes).is_stale(ids) is stale


def test_a_render_state_names_its_ref_and_paths() -> None:
    assert (RENDERED.target_ref, PINNED.target_ref) == ("main", "a" * 40)
    assert set(RENDERED.paths) == {"apps", "base"}
    assert list(replace(RENDERED, reads={}).paths) == ["apps"]


def test_a_rolled_back_service_follows_its_ref_as_well() -> None:
    """The ref shows how many commits the rollback keeps from it."""
    assert RENDERED.refs == {"main"}
    assert PINNED.refs == {"a" * 40, "main"}
    assert replace(PINNED, promoted=True).refs == {"a" * 40}


def test_a_template_is_the_settings_of_a_service() -> None:
    template = ServiceTemplate.of(HEALTHY.changed(configuration={"a": "1"}, protect=True))
    columns = template.columns()
    assert (columns["name"], columns["configuration"], columns["protect"]) == (
        "web",
        {"a": "1"},
        True,
    )
    assert "secrets" not in columns
    assert HEALTHY.changed(**columns) == HEALTHY.changed(configuration={"a": "1"}, protect=True)


def test_an_override_lists_only_real_differences() -> None:
    template = ServiceTemplate(
        spec=ServiceSpec(configuration={"a": "1", "b": "1"}, helm={"chart": "c"})
    )
    override = TemplateOverride(
        configuration={"a": "1", "b": None, "c": "3"}, helm={"chart": "c"}, protect=True
    )
    assert set(override_delta(template, override)) == {
        OverrideDelta("renderer", template.spec.renderer, "helm"),
        OverrideDelta("configuration.b", "1", None),
        OverrideDelta("configuration.c", None, "3"),
        OverrideDelta("protect", False, True),
    }
    assert override_delta(template, None) == ()
    assert TemplateOverride().empty and not override.empty


@pytest.mark.parametrize(
    ("override", "renderer"),
    [
        (TemplateOverride(ref="v1"), "auto"),
        (TemplateOverride(kustomize_path="overlays/eu"), "kustomize"),
        (TemplateOverride(helm={"release": "eu"}), "helm"),
    ],
)
def test_an_override_of_a_renderer_selects_it(override: TemplateOverride, renderer: str) -> None:
    assert apply_override(ServiceTemplate(), override).spec.renderer == renderer


def test_a_mirrored_service_has_the_id_that_its_agent_gave_it() -> None:
    assert HEALTHY.id_at_agent == HEALTHY.id
    assert replace(HEALTHY, reported_id="own").id_at_agent == "own"


def test_only_a_phase_that_waits_needs_a_confirmation() -> None:
    """The objects of an older report stay until the agent reports others."""
    objects = (ObjectRef("", "v1", "Secret", "shop", "s"),)
    waiting = HEALTHY.changed(awaiting=objects, phase=Phase.AWAITING)
    assert [problem.source for problem in waiting.errors] == ["deletion"]
    assert waiting.changed(phase=Phase.APPLIED).errors == ()


def test_digests_are_shortened_for_people() -> None:
    digest = f"sha256:{'0123456789' * 6}"
    text = str(replace(BAD, digest=digest, instead=digest))
    assert (
        text == "sha256:012345678901 is known to be bad: crashes; it stays at sha256:012345678901"
    )


def test_managed_fields_are_limited() -> None:
    fields = {f"f:k{n}": {} for n in range(MAX_FIELDS + 1)}
    live = {"data": {f"k{n}": "v" for n in range(MAX_FIELDS + 1)}}
    noted = [{"manager": "a", "fieldsV1": {"f:data": fields}}]
    assert len(managed_fields(noted, live)) == MAX_FIELDS


def event(name: str, second: int | None, uid: str = "u", **fields: Any) -> dict[str, Any]:
    last = None if second is None else f"2026-01-01T00:00:{second:02}Z"
    involved = {"uid": uid, "kind": "Pod", "name": "web"}
    given = {"metadata": {"name": name}, "involvedObject": involved, "lastTimestamp": last}
    return {**given, "reason": name, **fields}


def test_events_are_sorted_by_time_then_object_then_name() -> None:
    """Events have whole seconds; the names of events end with their time in nanoseconds. Those
    without any time are last."""
    events = [
        event("web.1", 5),
        event("web.3", 5),
        event("web.2", 5),
        event("old", 4),
        event("none", None),
        event("series", None, series={"lastObservedTime": "2026-01-01T00:00:09Z"}),
        event("micro", None, eventTime="2026-01-01T00:00:07Z"),
        event("other", 9, uid="x"),
    ]
    found = [each.reason for each in parse_events(events, frozenset({"u"}))]
    assert found == ["series", "micro", "web.3", "web.2", "web.1", "old", "none"]


@pytest.mark.parametrize(
    ("fields", "count", "source"),
    [
        ({}, 1, ""),
        ({"count": 3, "series": {"count": 9}, "source": {"component": "kubelet"}}, 3, "kubelet"),
        ({"count": 0, "series": {"count": 9}, "reportingComponent": "scheduler"}, 9, "scheduler"),
        ({"count": "many", "source": None}, 1, ""),
    ],
)
def test_events_of_both_apis_are_read(fields: dict[str, Any], count: int, source: str) -> None:
    (found,) = parse_events([event("e", 1, **fields)], frozenset({"u"}))
    assert (found.count, found.source) == (count, source)


def test_incomplete_live_objects_are_shown_as_they_are() -> None:
    assert redact_object({"kind": "Pod"}) == {"kind": "Pod", "metadata": {}}
    secret = {"kind": "Secret", "apiVersion": "v1", "metadata": {}, "stringData": {"a": "b"}}
    assert redact_object(secret)["stringData"] == {"a": "(hidden)"}
    custom = {"kind": "Secret", "apiVersion": "v2", "metadata": {}, "data": {"a": "b"}}
    assert redact_object(custom)["data"] == {"a": "b"}
    assert parse_events(["odd", {"involvedObject": {"uid": "other"}}], frozenset({"u"})) == []
