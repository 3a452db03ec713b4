"""Values that both ends of a link share reach the other end whole."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.spec.bundle import Attestation
from core.spec.desired import BundleSpec, Desired
from core.spec.facts import ClusterFacts, DeprecatedApi
from core.spec.fences import ServiceFence
from core.spec.health import FieldCondition, HealthRule
from core.spec.jobs import JobSpec, JobStatus
from core.spec.objects import FieldChange, ObjectRef
from core.spec.plan import PlannedAction, PlannedChange
from core.spec.reports.commands import CommandAnswer
from core.spec.reports.drift import DriftFound
from core.spec.reports.inventory import InventoryChange, ObservedComponent
from core.spec.reports.local_services import LocalServiceReport
from core.spec.reports.report import ReportBody
from core.spec.sealed_secrets import SealedSecret
from core.spec.source import RenderedBundle
from core.spec.status import Problem, SyncStatus
from core.spec.sync import IgnoredDifference, ObjectSelection, SyncOptions
from core.spec.verification import MetricCheck, Verification, VerificationResult
from core.wire import codec, limits, report_codec
from core.wire.v1 import agent_pb2 as pb


@dataclass(frozen=True)
class Pair:
    """The codec of one value; `renamed`: fields with another name in the message."""

    value: type[Any]
    message: type[Message]
    to_message: Callable[[Any], Any]
    from_message: Callable[[Any], Any]
    renamed: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.value.__name__


REPORTED = (
    Pair(ObjectRef, pb.ObjectRef, codec.object_ref_to_message, codec.object_ref_from_message),
    Pair(
        FieldChange,
        pb.FieldChange,
        report_codec.field_change_to_message,
        report_codec.field_change_from_message,
    ),
    Pair(
        PlannedChange,
        pb.PlannedChange,
        report_codec.planned_change_to_message,
        report_codec.planned_change_from_message,
    ),
    Pair(
        DeprecatedApi,
        pb.DeprecatedApi,
        report_codec.deprecated_api_to_message,
        report_codec.deprecated_api_from_message,
    ),
    Pair(
        ClusterFacts,
        pb.ClusterFacts,
        report_codec.cluster_facts_to_message,
        report_codec.cluster_facts_from_message,
        {"token_expires_at": "token_expires_ms"},
    ),
    Pair(
        VerificationResult,
        pb.Verified,
        report_codec.verification_result_to_message,
        report_codec.verification_result_from_message,
    ),
    Pair(
        Problem,
        pb.Problem,
        report_codec.problem_to_message,
        report_codec.problem_from_message,
        {"ref": "object"},
    ),
    Pair(
        SyncStatus,
        pb.ServiceStatus,
        report_codec.sync_status_to_message,
        report_codec.sync_status_from_message,
        {"stamps": "received_ms"},
    ),
    Pair(
        ObservedComponent,
        pb.Component,
        report_codec.component_to_message,
        report_codec.component_from_message,
        {"ref": "object"},
    ),
    Pair(
        InventoryChange,
        pb.Inventory,
        report_codec.inventory_to_message,
        report_codec.inventory_from_message,
        {"fresh": "present"},
    ),
    Pair(
        DriftFound,
        pb.Drift,
        report_codec.drift_to_message,
        report_codec.drift_from_message,
        {"ref": "object"},
    ),
    Pair(
        JobStatus,
        pb.JobStatus,
        report_codec.job_status_to_message,
        report_codec.job_status_from_message,
        {"ref": "object", "started_at": "started_ms", "finished_at": "finished_ms"},
    ),
    Pair(
        LocalServiceReport,
        pb.MirroredService,
        report_codec.local_service_to_message,
        report_codec.local_service_from_message,
        {"committed_at": "committed_ms"},
    ),
)
PAIRS = (
    *REPORTED,
    Pair(
        RenderedBundle,
        pb.RenderResult,
        report_codec.rendered_bundle_to_message,
        report_codec.rendered_bundle_from_message,
    ),
    Pair(
        CommandAnswer,
        pb.CommandResult,
        report_codec.command_answer_to_message,
        report_codec.command_answer_from_message,
        {"rendered": "render"},
    ),
    Pair(
        MetricCheck, pb.MetricCheck, codec.metric_check_to_message, codec.metric_check_from_message
    ),
    Pair(
        Verification,
        pb.Verification,
        codec.verification_to_message,
        codec.verification_from_message,
        {"soak_s": "soak_seconds"},
    ),
    Pair(
        IgnoredDifference,
        pb.IgnoredDifference,
        codec.ignored_difference_to_message,
        codec.ignored_difference_from_message,
    ),
    Pair(
        FieldCondition,
        pb.FieldCondition,
        codec.field_condition_to_message,
        codec.field_condition_from_message,
    ),
    Pair(HealthRule, pb.HealthRule, codec.health_rule_to_message, codec.health_rule_from_message),
    Pair(
        SyncOptions, pb.SyncOptions, codec.sync_options_to_message, codec.sync_options_from_message
    ),
    Pair(Attestation, pb.Attestation, codec.attestation_to_message, codec.attestation_from_message),
    Pair(
        SealedSecret,
        pb.SealedSecret,
        codec.sealed_secret_to_message,
        codec.sealed_secret_from_message,
    ),
    Pair(
        BundleSpec,
        pb.ServiceSpec,
        codec.bundle_spec_to_message,
        codec.bundle_spec_from_message,
        {"size": "bundle_bytes"},
    ),
    Pair(Desired, pb.Desired, codec.desired_to_message, codec.desired_from_message),
    Pair(
        ObjectSelection,
        pb.SyncObjects,
        lambda selection: codec.selection_to_message("s", selection),
        codec.selection_from_message,
    ),
    Pair(
        JobSpec,
        pb.RunJob,
        lambda spec: codec.job_spec_to_message(spec).run_job,
        lambda message: codec.job_spec_from_message(pb.Command(id=COMMAND, run_job=message)),
        # The command has the id; the agent alone sets `own`.
        {"command_id": "namespace", "own": "namespace"},
    ),
)
ENUMS = (
    report_codec.PHASE,
    report_codec.JOB_PHASE,
    report_codec.OUTCOME,
    report_codec.PLANNED_ACTION,
    codec.REMOVAL,
    codec.DRIFT_POLICY,
    codec.HEALTH,
    codec.COMPARISON,
)
COMMAND = "019b0000-0000-7000-8000-000000000000"
SHORT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)
LONG = st.sampled_from(["x", "ä", "\N{PILE OF POO}", "\0"]).map(lambda text: text * 3000)


TIMES = st.integers(1, 4_102_444_800_000).map(report_codec.time_from_message)


@cache
def values(hint: Any, text: st.SearchStrategy[str] = SHORT) -> st.SearchStrategy[Any]:
    """Any value of a type, with every field of a dataclass drawn."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return st.one_of(st.none(), *(values(arg, text) for arg in args if arg is not NoneType))
    if origin is tuple:
        return st.lists(values(args[0], text), max_size=2).map(tuple)
    if origin in (Mapping, dict):
        return st.dictionaries(values(args[0], text), values(args[1], text), max_size=2)
    if is_dataclass(hint):
        return built(hint, text)
    if hint in (datetime, Any):
        return TIMES if hint is datetime else text
    if issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    simple: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(0, 10_000),
        float: st.floats(allow_nan=False),
        bytes: st.binary(max_size=4),
        str: text,
    }
    return simple[hint]


def built(hint: Any, text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Any value of a dataclass that its own rules allow."""
    hints = get_type_hints(hint)
    drawn = {one.name: hints[one.name] for one in fields(hint)}
    if hint is Problem:
        # A message without a source comes from an older agent.
        source = text.filter(bool)
        del drawn["source"]
        return st.builds(hint, source=source, **each(drawn, text))
    if hint is InventoryChange:
        del drawn["fresh"]
        return st.builds(hint, **each(drawn, text)).flatmap(with_fresh)
    if hint is Desired:
        wanted = st.builds(hint, **each(drawn, text))
        return wanted.filter(lambda one: (one.spec is None) != (one.removal is None))
    if hint is JobSpec:
        del drawn["command_id"], drawn["own"]
        return st.builds(hint, command_id=st.just(COMMAND), **each(drawn, text))
    if hint is ServiceFence:
        # The cluster's own tenants alone have rules about images.
        del drawn["images"]
    return st.builds(hint, **each(drawn, text))


def each(
    hints: Mapping[str, Any], text: st.SearchStrategy[str]
) -> dict[str, st.SearchStrategy[Any]]:
    return {name: values(hint, text) for name, hint in hints.items()}


def with_fresh(change: InventoryChange) -> st.SearchStrategy[InventoryChange]:
    """Some of the present objects are new."""
    keys = sorted({component.ref.key for component in change.present})
    if not keys:
        return st.just(change)
    return st.sets(st.sampled_from(keys)).map(lambda some: replace(change, fresh=frozenset(some)))


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@given(data=st.data())
def test_a_value_comes_back_from_its_message(pair: Pair, data: st.DataObject) -> None:
    value = data.draw(values(pair.value))
    sent = pair.to_message(value).SerializeToString()
    assert pair.from_message(pair.message.FromString(sent)) == value


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_a_message_has_every_field_of_its_value(pair: Pair) -> None:
    names = {pair.renamed.get(one.name, one.name) for one in fields(pair.value)}
    missing = names - set(pair.message.DESCRIPTOR.fields_by_name)
    assert not missing, f"{pair.message.DESCRIPTOR.name} lacks {sorted(missing)}"


@pytest.mark.parametrize("pair", REPORTED, ids=str)
@given(data=st.data())
def test_a_reported_value_is_cut_to_the_limits_and_has_no_nul(
    pair: Pair, data: st.DataObject
) -> None:
    message = pair.to_message(data.draw(values(pair.value, LONG)))
    limits.check(message)
    assert "\\x00" not in repr(pair.from_message(message))


def test_long_lists_of_reported_values_are_cut() -> None:
    change = FieldChange("/a", "1", "2")
    ref = ObjectRef("", "v1", "ConfigMap", "shop", "a")
    planned = PlannedChange(ref, PlannedAction.UPDATE, (change,) * 40)
    limits.check(report_codec.planned_change_to_message(planned))
    api = DeprecatedApi("", "v1", "x", "1.25")
    facts = ClusterFacts(api_versions=("v1",) * 5000, deprecated=(api,) * 2000)
    limits.check(report_codec.cluster_facts_to_message(facts))


@pytest.mark.parametrize("enum", ENUMS, ids=lambda enum: enum.values.__name__)
def test_every_member_of_an_enum_comes_back(enum: codec.EnumCodec[Any]) -> None:
    for member in enum.values:
        assert enum.from_message(enum.to_message(member)) is member
    assert enum.from_message(0) is None and enum.from_message(999) is None


def test_unknown_wire_values_are_skipped_or_refused() -> None:
    assert report_codec.planned_change_from_message(pb.PlannedChange()) is None
    assert codec.health_rule_from_message(pb.HealthRule()) is None
    options = pb.SyncOptions(health_rules=[pb.HealthRule()])
    assert codec.sync_options_from_message(options).health_rules == ()
    with pytest.raises(Invalid, match="comparison"):
        codec.verification_from_message(pb.Verification(metric=pb.MetricCheck()))


def test_agents_verify_for_a_week_at_most() -> None:
    limits.check(codec.verification_to_message(Verification(30 * 86_400)))


@pytest.mark.parametrize("kind", get_args(ReportBody), ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_kind_of_report_comes_back(kind: type[Any], data: st.DataObject) -> None:
    body = data.draw(values(kind))
    sent = report_codec.report_to_message(body).SerializeToString()
    assert report_codec.report_from_message(pb.Report.FromString(sent)).body == body


def test_every_report_of_the_protocol_is_read() -> None:
    kinds = {field.name for field in pb.Report.DESCRIPTOR.oneofs_by_name["body"].fields}
    unread = [kind for kind in kinds if report_codec.report_from_message(empty(kind)).body is None]
    assert kinds and unread == []
    assert report_codec.report_from_message(pb.Report()).body is None


def empty(kind: str) -> pb.Report:
    report = pb.Report()
    getattr(report, kind).SetInParent()
    return report


def test_no_control_plane_can_ask_for_a_job_of_the_agents_own() -> None:
    spec = JobSpec(COMMAND, "prod", {}, 60, own=True)
    assert not codec.job_spec_from_message(codec.job_spec_to_message(spec)).own
