"""Codec between the values of `core.spec` and the messages of `core.wire.v1`.

Each value has one function pair, `…_to_message` and `…_from_message`; both ends of a link call it.
`core.wire.report_codec` has those of the agents' reports.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Generic, TypeVar

import orjson

from core.errors import Invalid
from core.spec.bundle import Attestation
from core.spec.desired import BundleSpec, Desired
from core.spec.fences import ObjectRules, ServiceFence
from core.spec.health import FieldCondition, HealthRule, HealthState
from core.spec.jobs import JobSpec
from core.spec.objects import ObjectRef
from core.spec.sealed_secrets import SealedSecret
from core.spec.sync import (
    DriftPolicy,
    IgnoredDifference,
    ObjectSelection,
    Removal,
    SyncOptions,
)
from core.spec.thresholds import Comparison
from core.spec.verification import MetricCheck, Verification
from core.wire.v1 import agent_pb2 as pb

# Agents support at most one week.
_MAX_SOAK_S = 604_800

E = TypeVar("E", bound=Enum)
V = TypeVar("V")


class EnumCodec(Generic[E]):
    """Translates an enum by the names of its members, `prefix` before each.

    `renamed` are members with another name in the messages.
    """

    def __init__(
        self, values: type[E], message: Any, prefix: str, renamed: Mapping[E, str] | None = None
    ) -> None:
        self.values = values
        names = renamed or {}
        self._numbers: dict[E, object] = {
            value: message.Value(prefix + names.get(value, value.name)) for value in values
        }
        self._values = {number: value for value, number in self._numbers.items()}

    def to_message(self, value: E) -> Any:
        return self._numbers[value]

    def from_message(self, number: int) -> E | None:
        """Returns the value; None for a number that this version does not know."""
        return self._values.get(number)


REMOVAL = EnumCodec(Removal, pb.Removal, "REMOVAL_")
DRIFT_POLICY = EnumCodec(DriftPolicy, pb.DriftPolicy, "DRIFT_POLICY_")
HEALTH = EnumCodec(HealthState, pb.Health, "HEALTH_")
COMPARISON = EnumCodec(
    Comparison,
    pb.Comparison,
    "COMPARISON_",
    {Comparison.BELOW: "LESS", Comparison.ABOVE: "GREATER"},
)


def cut_text(text: str, limit: int) -> str:
    """Truncates text to a limit in bytes, never within a character."""
    if text.isascii():
        return text[:limit]
    data = text.encode(errors="replace")
    return data[:limit].decode(errors="ignore")


def plain_text(text: str) -> str:
    """Replaces NUL."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def drop_unknown(values: Iterable[V | None]) -> tuple[V, ...]:
    """Drops the values that this version does not know."""
    return tuple(value for value in values if value is not None)


def object_ref_to_message(ref: ObjectRef) -> pb.ObjectRef:
    return pb.ObjectRef(
        group=cut_text(ref.group, 253),
        version=cut_text(ref.version, 63),
        kind=cut_text(ref.kind, 63),
        namespace=cut_text(ref.namespace, 63),
        name=cut_text(ref.name, 253),
    )


def object_ref_from_message(message: pb.ObjectRef) -> ObjectRef:
    return ObjectRef(
        plain_text(message.group),
        plain_text(message.version),
        plain_text(message.kind),
        plain_text(message.namespace),
        plain_text(message.name),
    )


def selection_to_message(service_id: str, selection: ObjectSelection) -> pb.SyncObjects:
    objects = map(object_ref_to_message, selection.objects)
    return pb.SyncObjects(service_id=service_id, objects=objects, prune=selection.prune)


def selection_from_message(message: pb.SyncObjects) -> ObjectSelection:
    return ObjectSelection(tuple(map(object_ref_from_message, message.objects)), message.prune)


def metric_check_to_message(check: MetricCheck) -> pb.MetricCheck:
    return pb.MetricCheck(
        address=check.address,
        query=check.query,
        comparison=COMPARISON.to_message(check.comparison),
        threshold=check.threshold,
    )


def metric_check_from_message(message: pb.MetricCheck) -> MetricCheck:
    """Decodes a check. Invalid: unknown comparison."""
    comparison = COMPARISON.from_message(message.comparison)
    if comparison is None:
        raise Invalid("not a known comparison", field="MetricCheck.comparison")
    return MetricCheck(message.address, message.query, message.threshold, comparison)


def verification_to_message(verification: Verification) -> pb.Verification:
    """Encodes a verification; its soak time is at most one week."""
    metric = verification.metric
    return pb.Verification(
        soak_seconds=min(verification.soak_s, _MAX_SOAK_S),
        max_restarts=verification.max_restarts,
        metric=metric_check_to_message(metric) if metric else None,
    )


def verification_from_message(message: pb.Verification) -> Verification:
    """Decodes a verification. Invalid: unknown comparison."""
    metric = metric_check_from_message(message.metric) if message.HasField("metric") else None
    return Verification(message.soak_seconds, message.max_restarts, metric)


def ignored_difference_to_message(ignored: IgnoredDifference) -> pb.IgnoredDifference:
    return pb.IgnoredDifference(
        group=ignored.group,
        kind=ignored.kind,
        namespace=ignored.namespace,
        name=ignored.name,
        pointers=ignored.pointers,
        managers=ignored.managers,
    )


def ignored_difference_from_message(message: pb.IgnoredDifference) -> IgnoredDifference:
    return IgnoredDifference(
        message.group,
        message.kind,
        message.namespace,
        message.name,
        tuple(message.pointers),
        tuple(message.managers),
    )


def field_condition_to_message(condition: FieldCondition) -> pb.FieldCondition:
    return pb.FieldCondition(pointer=condition.pointer, any_of=condition.any_of)


def field_condition_from_message(message: pb.FieldCondition) -> FieldCondition:
    return FieldCondition(message.pointer, tuple(message.any_of))


def health_rule_to_message(rule: HealthRule) -> pb.HealthRule:
    return pb.HealthRule(
        group=rule.group,
        kind=rule.kind,
        health=HEALTH.to_message(rule.health),
        conditions=[field_condition_to_message(condition) for condition in rule.conditions],
        message=rule.message,
    )


def health_rule_from_message(message: pb.HealthRule) -> HealthRule | None:
    """Returns the rule; None for a health that this version does not know."""
    health = HEALTH.from_message(message.health)
    if health is None:
        return None
    conditions = tuple(map(field_condition_from_message, message.conditions))
    return HealthRule(message.group, message.kind, health, conditions, message.message)


def sync_options_to_message(options: SyncOptions) -> pb.SyncOptions:
    return pb.SyncOptions(
        create_namespace=options.create_namespace,
        drift=DRIFT_POLICY.to_message(options.drift),
        namespace_labels=options.namespace_labels,
        namespace_annotations=options.namespace_annotations,
        keep_on_prune=options.keep_on_prune,
        fail_on_conflict=options.fail_on_conflict,
        replace_immutable=options.replace_immutable,
        ignored=[ignored_difference_to_message(ignored) for ignored in options.ignored],
        health_rules=[health_rule_to_message(rule) for rule in options.health_rules],
        wave_timeout_s=options.wave_timeout_s,
        deletion_budget=options.deletion_budget,
    )


def sync_options_from_message(message: pb.SyncOptions) -> SyncOptions:
    """Decodes options without the health rules that this version does not know."""
    return SyncOptions(
        create_namespace=message.create_namespace,
        drift=DRIFT_POLICY.from_message(message.drift) or DriftPolicy.HEAL,
        namespace_labels=dict(message.namespace_labels),
        namespace_annotations=dict(message.namespace_annotations),
        keep_on_prune=message.keep_on_prune,
        fail_on_conflict=message.fail_on_conflict,
        replace_immutable=message.replace_immutable,
        ignored=tuple(map(ignored_difference_from_message, message.ignored)),
        health_rules=drop_unknown(map(health_rule_from_message, message.health_rules)),
        wave_timeout_s=message.wave_timeout_s,
        deletion_budget=message.deletion_budget,
    )


def attestation_to_message(attestation: Attestation) -> pb.Attestation:
    return pb.Attestation(
        key_id=attestation.key_id,
        statement=attestation.statement,
        signature=attestation.signature,
        evidence=attestation.evidence,
    )


def attestation_from_message(message: pb.Attestation) -> Attestation:
    return Attestation(message.key_id, message.statement, message.signature, message.evidence)


def sealed_secret_to_message(secret: SealedSecret) -> pb.SealedSecret:
    return pb.SealedSecret(name=secret.name, version=secret.version, box=secret.box)


def sealed_secret_from_message(message: pb.SealedSecret) -> SealedSecret:
    return SealedSecret(message.name, message.version, message.box)


def bundle_spec_to_message(spec: BundleSpec) -> pb.ServiceSpec:
    attested = spec.attestation
    return pb.ServiceSpec(
        name=spec.name,
        namespace=spec.namespace,
        digest=spec.digest,
        bundle_bytes=spec.size,
        options=sync_options_to_message(spec.options),
        commit=spec.commit,
        attestation=attestation_to_message(attested) if attested else None,
        secrets=map(sealed_secret_to_message, spec.secrets),
        dry_run=spec.dry_run,
        paused=spec.paused,
    )


def bundle_spec_from_message(message: pb.ServiceSpec) -> BundleSpec:
    attested = message.HasField("attestation")
    return BundleSpec(
        name=message.name,
        namespace=message.namespace,
        digest=message.digest,
        size=message.bundle_bytes,
        options=sync_options_from_message(message.options),
        commit=message.commit,
        attestation=attestation_from_message(message.attestation) if attested else None,
        secrets=tuple(map(sealed_secret_from_message, message.secrets)),
        dry_run=message.dry_run,
        paused=message.paused,
    )


def object_rules_to_message(rules: ObjectRules) -> pb.ObjectRules:
    return pb.ObjectRules(
        namespaces=rules.namespaces, cluster_scoped=rules.cluster_scoped, denied=rules.denied
    )


def object_rules_from_message(message: pb.ObjectRules) -> ObjectRules:
    return ObjectRules(
        tuple(message.namespaces), tuple(message.cluster_scoped), tuple(message.denied)
    )


def fence_to_message(fence: ServiceFence) -> pb.Fence:
    return pb.Fence(
        project=fence.project,
        service_account=fence.service_account,
        rules=map(object_rules_to_message, fence.rules),
        max_objects=fence.max_objects,
    )


def fence_from_message(message: pb.Fence) -> ServiceFence:
    return ServiceFence(
        project=message.project,
        service_account=message.service_account,
        rules=tuple(map(object_rules_from_message, message.rules)),
        max_objects=message.max_objects,
    )


def desired_to_message(desired: Desired) -> pb.Desired:
    policy = desired.verification
    return pb.Desired(
        service_id=desired.service_id,
        sequence=desired.sequence,
        spec=bundle_spec_to_message(desired.spec) if desired.spec else None,
        removal=REMOVAL.to_message(desired.removal) if desired.removal else None,
        confirmed=map(object_ref_to_message, desired.confirmed),
        verification=verification_to_message(policy) if policy else None,
        lifted=desired.lifted,
        fence=fence_to_message(desired.fence) if desired.fence else None,
    )


def desired_from_message(message: pb.Desired) -> Desired:
    """Decodes the desired state of a service. Invalid: neither a spec nor a known removal."""
    spec = bundle_spec_from_message(message.spec) if message.HasField("spec") else None
    removal = REMOVAL.from_message(message.removal)
    if spec is None and removal is None:
        raise Invalid("neither a spec nor a known removal", field="Desired.state")
    verified = message.HasField("verification")
    return Desired(
        service_id=message.service_id,
        sequence=message.sequence,
        spec=spec,
        removal=removal,
        confirmed=tuple(map(object_ref_from_message, message.confirmed)),
        verification=verification_from_message(message.verification) if verified else None,
        lifted=message.lifted,
        fence=fence_from_message(message.fence) if message.HasField("fence") else None,
    )


def job_spec_to_message(spec: JobSpec) -> pb.Command:
    """Encodes the command that runs a job."""
    body = pb.RunJob(
        namespace=spec.namespace,
        manifest=orjson.dumps(spec.manifest),
        timeout_s=spec.timeout_s,
        secrets=map(sealed_secret_to_message, spec.secrets),
        follow=spec.follow,
        fence=fence_to_message(spec.fence) if spec.fence else None,
    )
    return pb.Command(id=spec.command_id, run_job=body)


def job_spec_from_message(message: pb.Command) -> JobSpec:
    """Decodes the job of a command. Invalid: its manifest is not an object."""
    body = message.run_job
    try:
        manifest = orjson.loads(body.manifest)
    except orjson.JSONDecodeError as error:
        raise Invalid("the job's manifest is not JSON") from error
    if not isinstance(manifest, dict):
        raise Invalid("the job's manifest is not an object")
    return JobSpec(
        command_id=message.id,
        namespace=body.namespace,
        manifest=manifest,
        timeout_s=body.timeout_s,
        follow=body.follow,
        fence=fence_from_message(body.fence) if body.HasField("fence") else None,
        secrets=tuple(map(sealed_secret_from_message, body.secrets)),
    )
