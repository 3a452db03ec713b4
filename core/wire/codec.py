"""Codec between the values of `core.spec` and the messages of `core.wire.v1`.

Each value has one function pair, `…_to_message` and `…_from_message`; both ends of a link call it.
Values that agents report are cut to the limits of the messages, and texts lose NUL, the only
character of a cluster's text that the store cannot keep.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Generic, TypeVar

from core.errors import Invalid
from core.sealing import SealedSecret
from core.spec.attestation import Attestation
from core.spec.facts import ClusterFacts, DeprecatedApi
from core.spec.health import FieldCondition, HealthRule, HealthState
from core.spec.jobs import JobPhase
from core.spec.objects import FieldChange, ObjectRef
from core.spec.plan import PlannedAction, PlannedChange
from core.spec.status import Phase
from core.spec.sync import DriftPolicy, IgnoredDifference, Removal, SyncOptions
from core.spec.thresholds import Comparison
from core.spec.verification import MetricCheck, Verification, VerificationResult
from core.wire.v1 import agent_pb2 as pb

MAX_FIELDS = 32
"""Maximum number of changed fields of one object."""
_MAX_APIS = 1000
# Agents support at most one week.
_MAX_SOAK_S = 604_800

E = TypeVar("E", bound=Enum)


class EnumCodec(Generic[E]):
    """Translates an enum by the names of its members, `prefix` before each.

    `renamed` are members with another name in the messages.
    """

    def __init__(
        self, values: type[E], message: Any, prefix: str, renamed: Mapping[E, str] | None = None
    ) -> None:
        self.values = values
        names = renamed or {}
        self._numbers: dict[E, Any] = {
            value: message.Value(prefix + names.get(value, value.name)) for value in values
        }
        self._values = {number: value for value, number in self._numbers.items()}

    def to_message(self, value: E) -> Any:
        return self._numbers[value]

    def from_message(self, number: int) -> E | None:
        """Returns the value; None for a number that this version does not know."""
        return self._values.get(number)


PHASE = EnumCodec(Phase, pb.Phase, "PHASE_")
JOB_PHASE = EnumCodec(JobPhase, pb.JobPhase, "JOB_PHASE_")
REMOVAL = EnumCodec(Removal, pb.Removal, "REMOVAL_")
DRIFT_POLICY = EnumCodec(DriftPolicy, pb.DriftPolicy, "DRIFT_POLICY_")
HEALTH = EnumCodec(HealthState, pb.Health, "HEALTH_")
PLANNED_ACTION = EnumCodec(PlannedAction, pb.Change, "CHANGE_")
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


def field_change_to_message(change: FieldChange) -> pb.FieldChange:
    return pb.FieldChange(
        pointer=cut_text(change.pointer, 1024),
        old=cut_text(change.old, 1024),
        new=cut_text(change.new, 1024),
    )


def field_change_from_message(message: pb.FieldChange) -> FieldChange:
    return FieldChange(
        plain_text(message.pointer), plain_text(message.old), plain_text(message.new)
    )


def planned_change_to_message(change: PlannedChange) -> pb.PlannedChange:
    return pb.PlannedChange(
        object=object_ref_to_message(change.object),
        change=PLANNED_ACTION.to_message(change.change),
        fields=[field_change_to_message(field) for field in change.fields[:MAX_FIELDS]],
    )


def planned_change_from_message(message: pb.PlannedChange) -> PlannedChange | None:
    """Returns the change; None for an action that this version does not know."""
    action = PLANNED_ACTION.from_message(message.change)
    if action is None:
        return None
    fields = tuple(field_change_from_message(field) for field in message.fields)
    return PlannedChange(object_ref_from_message(message.object), action, fields)


def deprecated_api_to_message(api: DeprecatedApi) -> pb.DeprecatedApi:
    return pb.DeprecatedApi(
        group=cut_text(api.group, 253),
        version=cut_text(api.version, 63),
        resource=cut_text(api.resource, 253),
        removed_in=cut_text(api.removed_in, 16),
    )


def deprecated_api_from_message(message: pb.DeprecatedApi) -> DeprecatedApi:
    return DeprecatedApi(
        plain_text(message.group),
        plain_text(message.version),
        plain_text(message.resource),
        plain_text(message.removed_in),
    )


def cluster_facts_to_message(facts: ClusterFacts) -> pb.ClusterFacts:
    return pb.ClusterFacts(
        kubernetes_version=cut_text(facts.kubernetes_version, 64),
        distribution=cut_text(facts.distribution, 32),
        nodes=facts.nodes,
        cpu_millis=facts.cpu_millis,
        memory_bytes=facts.memory_bytes,
        pod_capacity=facts.pod_capacity,
        api_versions=[cut_text(api, 320) for api in facts.api_versions[:_MAX_APIS]],
        deprecated=[deprecated_api_to_message(api) for api in facts.deprecated[:_MAX_APIS]],
    )


def cluster_facts_from_message(message: pb.ClusterFacts) -> ClusterFacts:
    return ClusterFacts(
        kubernetes_version=plain_text(message.kubernetes_version),
        distribution=plain_text(message.distribution),
        nodes=message.nodes,
        cpu_millis=message.cpu_millis,
        memory_bytes=message.memory_bytes,
        pod_capacity=message.pod_capacity,
        api_versions=tuple(map(plain_text, message.api_versions)),
        deprecated=tuple(map(deprecated_api_from_message, message.deprecated)),
    )


def verification_result_to_message(result: VerificationResult) -> pb.Verified:
    return pb.Verified(
        service_id=result.service_id,
        sequence=result.sequence,
        digest=result.digest,
        ok=result.ok,
        reason=cut_text(result.reason, 4096),
        instead=result.instead,
    )


def verification_result_from_message(message: pb.Verified) -> VerificationResult:
    return VerificationResult(
        service_id=message.service_id,
        sequence=message.sequence,
        digest=message.digest,
        ok=message.ok,
        reason=plain_text(message.reason),
        instead=message.instead,
    )


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
        health_rules=_known(map(health_rule_from_message, message.health_rules)),
        wave_timeout_s=message.wave_timeout_s,
        deletion_budget=message.deletion_budget,
    )


def attestation_to_message(attestation: Attestation) -> pb.Attestation:
    return pb.Attestation(
        key_id=attestation.key_id,
        statement=attestation.statement,
        signature=attestation.signature,
    )


def attestation_from_message(message: pb.Attestation) -> Attestation:
    return Attestation(message.key_id, message.statement, message.signature)


def sealed_secret_to_message(secret: SealedSecret) -> pb.SealedSecret:
    return pb.SealedSecret(name=secret.name, version=secret.version, box=secret.box)


def sealed_secret_from_message(message: pb.SealedSecret) -> SealedSecret:
    return SealedSecret(message.name, message.version, message.box)


V = TypeVar("V")


def _known(values: Iterable[V | None]) -> tuple[V, ...]:
    return tuple(value for value in values if value is not None)
