from core.wire.v1 import options_pb2 as _options_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODE_UNSPECIFIED: _ClassVar[Mode]
    MODE_MANAGED: _ClassVar[Mode]
    MODE_AUTONOMOUS: _ClassVar[Mode]

class Comparison(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPARISON_UNSPECIFIED: _ClassVar[Comparison]
    COMPARISON_LESS: _ClassVar[Comparison]
    COMPARISON_AT_MOST: _ClassVar[Comparison]
    COMPARISON_GREATER: _ClassVar[Comparison]
    COMPARISON_AT_LEAST: _ClassVar[Comparison]

class Removal(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REMOVAL_UNSPECIFIED: _ClassVar[Removal]
    REMOVAL_CASCADE: _ClassVar[Removal]
    REMOVAL_ORPHAN: _ClassVar[Removal]

class DriftPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DRIFT_POLICY_UNSPECIFIED: _ClassVar[DriftPolicy]
    DRIFT_POLICY_HEAL: _ClassVar[DriftPolicy]
    DRIFT_POLICY_REPORT: _ClassVar[DriftPolicy]
    DRIFT_POLICY_IGNORE: _ClassVar[DriftPolicy]

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PHASE_UNSPECIFIED: _ClassVar[Phase]
    PHASE_FETCHING: _ClassVar[Phase]
    PHASE_APPLYING: _ClassVar[Phase]
    PHASE_APPLIED: _ClassVar[Phase]
    PHASE_HEALTHY: _ClassVar[Phase]
    PHASE_DEGRADED: _ClassVar[Phase]
    PHASE_FAILED: _ClassVar[Phase]
    PHASE_REMOVED: _ClassVar[Phase]
    PHASE_AWAITING: _ClassVar[Phase]

class InputKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INPUT_KIND_UNSPECIFIED: _ClassVar[InputKind]
    INPUT_KIND_BUNDLE: _ClassVar[InputKind]
    INPUT_KIND_SOURCE: _ClassVar[InputKind]
    INPUT_KIND_IMAGE: _ClassVar[InputKind]

class CheckResult(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHECK_RESULT_UNSPECIFIED: _ClassVar[CheckResult]
    CHECK_RESULT_VERIFIED: _ClassVar[CheckResult]
    CHECK_RESULT_UNVERIFIED: _ClassVar[CheckResult]
    CHECK_RESULT_REFUSED: _ClassVar[CheckResult]

class Change(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHANGE_UNSPECIFIED: _ClassVar[Change]
    CHANGE_CREATE: _ClassVar[Change]
    CHANGE_UPDATE: _ClassVar[Change]
    CHANGE_REPLACE: _ClassVar[Change]
    CHANGE_DELETE: _ClassVar[Change]

class Health(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HEALTH_UNSPECIFIED: _ClassVar[Health]
    HEALTH_HEALTHY: _ClassVar[Health]
    HEALTH_PROGRESSING: _ClassVar[Health]
    HEALTH_FAILED: _ClassVar[Health]
    HEALTH_PAUSED: _ClassVar[Health]
    HEALTH_MISSING: _ClassVar[Health]
    HEALTH_UNKNOWN: _ClassVar[Health]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_SUCCEEDED: _ClassVar[Outcome]
    OUTCOME_FAILED: _ClassVar[Outcome]
    OUTCOME_REFUSED: _ClassVar[Outcome]

class JobPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_PHASE_UNSPECIFIED: _ClassVar[JobPhase]
    JOB_PHASE_PENDING: _ClassVar[JobPhase]
    JOB_PHASE_RUNNING: _ClassVar[JobPhase]
    JOB_PHASE_SUCCEEDED: _ClassVar[JobPhase]
    JOB_PHASE_FAILED: _ClassVar[JobPhase]
    JOB_PHASE_CANCELLED: _ClassVar[JobPhase]

class GoodbyeReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GOODBYE_REASON_UNSPECIFIED: _ClassVar[GoodbyeReason]
    GOODBYE_REASON_DRAINING: _ClassVar[GoodbyeReason]
    GOODBYE_REASON_REPLACED: _ClassVar[GoodbyeReason]
    GOODBYE_REASON_REVOKED: _ClassVar[GoodbyeReason]
    GOODBYE_REASON_PROTOCOL: _ClassVar[GoodbyeReason]
MODE_UNSPECIFIED: Mode
MODE_MANAGED: Mode
MODE_AUTONOMOUS: Mode
COMPARISON_UNSPECIFIED: Comparison
COMPARISON_LESS: Comparison
COMPARISON_AT_MOST: Comparison
COMPARISON_GREATER: Comparison
COMPARISON_AT_LEAST: Comparison
REMOVAL_UNSPECIFIED: Removal
REMOVAL_CASCADE: Removal
REMOVAL_ORPHAN: Removal
DRIFT_POLICY_UNSPECIFIED: DriftPolicy
DRIFT_POLICY_HEAL: DriftPolicy
DRIFT_POLICY_REPORT: DriftPolicy
DRIFT_POLICY_IGNORE: DriftPolicy
PHASE_UNSPECIFIED: Phase
PHASE_FETCHING: Phase
PHASE_APPLYING: Phase
PHASE_APPLIED: Phase
PHASE_HEALTHY: Phase
PHASE_DEGRADED: Phase
PHASE_FAILED: Phase
PHASE_REMOVED: Phase
PHASE_AWAITING: Phase
INPUT_KIND_UNSPECIFIED: InputKind
INPUT_KIND_BUNDLE: InputKind
INPUT_KIND_SOURCE: InputKind
INPUT_KIND_IMAGE: InputKind
CHECK_RESULT_UNSPECIFIED: CheckResult
CHECK_RESULT_VERIFIED: CheckResult
CHECK_RESULT_UNVERIFIED: CheckResult
CHECK_RESULT_REFUSED: CheckResult
CHANGE_UNSPECIFIED: Change
CHANGE_CREATE: Change
CHANGE_UPDATE: Change
CHANGE_REPLACE: Change
CHANGE_DELETE: Change
HEALTH_UNSPECIFIED: Health
HEALTH_HEALTHY: Health
HEALTH_PROGRESSING: Health
HEALTH_FAILED: Health
HEALTH_PAUSED: Health
HEALTH_MISSING: Health
HEALTH_UNKNOWN: Health
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_SUCCEEDED: Outcome
OUTCOME_FAILED: Outcome
OUTCOME_REFUSED: Outcome
JOB_PHASE_UNSPECIFIED: JobPhase
JOB_PHASE_PENDING: JobPhase
JOB_PHASE_RUNNING: JobPhase
JOB_PHASE_SUCCEEDED: JobPhase
JOB_PHASE_FAILED: JobPhase
JOB_PHASE_CANCELLED: JobPhase
GOODBYE_REASON_UNSPECIFIED: GoodbyeReason
GOODBYE_REASON_DRAINING: GoodbyeReason
GOODBYE_REASON_REPLACED: GoodbyeReason
GOODBYE_REASON_REVOKED: GoodbyeReason
GOODBYE_REASON_PROTOCOL: GoodbyeReason

class Frames(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AgentMessage(_message.Message):
    __slots__ = ("hello", "report", "pulse", "job_log")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    PULSE_FIELD_NUMBER: _ClassVar[int]
    JOB_LOG_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    report: Report
    pulse: Pulse
    job_log: JobLog
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., pulse: _Optional[_Union[Pulse, _Mapping]] = ..., job_log: _Optional[_Union[JobLog, _Mapping]] = ...) -> None: ...

class HubMessage(_message.Message):
    __slots__ = ("welcome", "desired", "desired_end", "command", "ack", "goodbye")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    DESIRED_FIELD_NUMBER: _ClassVar[int]
    DESIRED_END_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    desired: Desired
    desired_end: DesiredEnd
    command: Command
    ack: Ack
    goodbye: Goodbye
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., desired: _Optional[_Union[Desired, _Mapping]] = ..., desired_end: _Optional[_Union[DesiredEnd, _Mapping]] = ..., command: _Optional[_Union[Command, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("lowest_protocol", "highest_protocol", "agent_version", "instance_id", "mode", "facts", "held", "sealing_key", "acknowledged")
    LOWEST_PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    SEALING_KEY_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    lowest_protocol: int
    highest_protocol: int
    agent_version: str
    instance_id: str
    mode: Mode
    facts: ClusterFacts
    held: _containers.RepeatedCompositeFieldContainer[Held]
    sealing_key: bytes
    acknowledged: int
    def __init__(self, lowest_protocol: _Optional[int] = ..., highest_protocol: _Optional[int] = ..., agent_version: _Optional[str] = ..., instance_id: _Optional[str] = ..., mode: _Optional[_Union[Mode, str]] = ..., facts: _Optional[_Union[ClusterFacts, _Mapping]] = ..., held: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., sealing_key: _Optional[bytes] = ..., acknowledged: _Optional[int] = ...) -> None: ...

class Held(_message.Message):
    __slots__ = ("service_id", "sequence")
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    service_id: str
    sequence: int
    def __init__(self, service_id: _Optional[str] = ..., sequence: _Optional[int] = ...) -> None: ...

class ClusterFacts(_message.Message):
    __slots__ = ("kubernetes_version", "distribution", "nodes", "cpu_millis", "memory_bytes", "pod_capacity", "api_versions", "deprecated", "token_expires_ms")
    KUBERNETES_VERSION_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    POD_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    API_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    DEPRECATED_FIELD_NUMBER: _ClassVar[int]
    TOKEN_EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    kubernetes_version: str
    distribution: str
    nodes: int
    cpu_millis: int
    memory_bytes: int
    pod_capacity: int
    api_versions: _containers.RepeatedScalarFieldContainer[str]
    deprecated: _containers.RepeatedCompositeFieldContainer[DeprecatedApi]
    token_expires_ms: int
    def __init__(self, kubernetes_version: _Optional[str] = ..., distribution: _Optional[str] = ..., nodes: _Optional[int] = ..., cpu_millis: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., pod_capacity: _Optional[int] = ..., api_versions: _Optional[_Iterable[str]] = ..., deprecated: _Optional[_Iterable[_Union[DeprecatedApi, _Mapping]]] = ..., token_expires_ms: _Optional[int] = ...) -> None: ...

class DeprecatedApi(_message.Message):
    __slots__ = ("group", "version", "resource", "removed_in")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    REMOVED_IN_FIELD_NUMBER: _ClassVar[int]
    group: str
    version: str
    resource: str
    removed_in: str
    def __init__(self, group: _Optional[str] = ..., version: _Optional[str] = ..., resource: _Optional[str] = ..., removed_in: _Optional[str] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("protocol", "cluster_id", "handle", "hub_version", "pulse_ms", "acknowledged", "signing_key", "rotations")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    HUB_VERSION_FIELD_NUMBER: _ClassVar[int]
    PULSE_MS_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    SIGNING_KEY_FIELD_NUMBER: _ClassVar[int]
    ROTATIONS_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    cluster_id: str
    handle: str
    hub_version: str
    pulse_ms: int
    acknowledged: int
    signing_key: bytes
    rotations: _containers.RepeatedCompositeFieldContainer[Attestation]
    def __init__(self, protocol: _Optional[int] = ..., cluster_id: _Optional[str] = ..., handle: _Optional[str] = ..., hub_version: _Optional[str] = ..., pulse_ms: _Optional[int] = ..., acknowledged: _Optional[int] = ..., signing_key: _Optional[bytes] = ..., rotations: _Optional[_Iterable[_Union[Attestation, _Mapping]]] = ...) -> None: ...

class Desired(_message.Message):
    __slots__ = ("service_id", "sequence", "spec", "removal", "confirmed", "verification", "lifted", "fence", "order")
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    REMOVAL_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    VERIFICATION_FIELD_NUMBER: _ClassVar[int]
    LIFTED_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    service_id: str
    sequence: int
    spec: ServiceSpec
    removal: Removal
    confirmed: _containers.RepeatedCompositeFieldContainer[ObjectRef]
    verification: Verification
    lifted: bool
    fence: Fence
    order: Attestation
    def __init__(self, service_id: _Optional[str] = ..., sequence: _Optional[int] = ..., spec: _Optional[_Union[ServiceSpec, _Mapping]] = ..., removal: _Optional[_Union[Removal, str]] = ..., confirmed: _Optional[_Iterable[_Union[ObjectRef, _Mapping]]] = ..., verification: _Optional[_Union[Verification, _Mapping]] = ..., lifted: _Optional[bool] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., order: _Optional[_Union[Attestation, _Mapping]] = ...) -> None: ...

class Fence(_message.Message):
    __slots__ = ("project", "service_account", "rules", "max_objects")
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    MAX_OBJECTS_FIELD_NUMBER: _ClassVar[int]
    project: str
    service_account: str
    rules: _containers.RepeatedCompositeFieldContainer[ObjectRules]
    max_objects: int
    def __init__(self, project: _Optional[str] = ..., service_account: _Optional[str] = ..., rules: _Optional[_Iterable[_Union[ObjectRules, _Mapping]]] = ..., max_objects: _Optional[int] = ...) -> None: ...

class ObjectRules(_message.Message):
    __slots__ = ("namespaces", "cluster_scoped", "denied")
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_SCOPED_FIELD_NUMBER: _ClassVar[int]
    DENIED_FIELD_NUMBER: _ClassVar[int]
    namespaces: _containers.RepeatedScalarFieldContainer[str]
    cluster_scoped: _containers.RepeatedScalarFieldContainer[str]
    denied: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, namespaces: _Optional[_Iterable[str]] = ..., cluster_scoped: _Optional[_Iterable[str]] = ..., denied: _Optional[_Iterable[str]] = ...) -> None: ...

class Verification(_message.Message):
    __slots__ = ("soak_seconds", "max_restarts", "metric")
    SOAK_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MAX_RESTARTS_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    soak_seconds: int
    max_restarts: int
    metric: MetricCheck
    def __init__(self, soak_seconds: _Optional[int] = ..., max_restarts: _Optional[int] = ..., metric: _Optional[_Union[MetricCheck, _Mapping]] = ...) -> None: ...

class MetricCheck(_message.Message):
    __slots__ = ("address", "query", "comparison", "threshold")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    COMPARISON_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    address: str
    query: str
    comparison: Comparison
    threshold: float
    def __init__(self, address: _Optional[str] = ..., query: _Optional[str] = ..., comparison: _Optional[_Union[Comparison, str]] = ..., threshold: _Optional[float] = ...) -> None: ...

class ServiceSpec(_message.Message):
    __slots__ = ("name", "namespace", "digest", "bundle_bytes", "commit", "options", "attestation", "secrets", "bundle", "dry_run", "paused")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    ATTESTATION_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    name: str
    namespace: str
    digest: str
    bundle_bytes: int
    commit: str
    options: SyncOptions
    attestation: Attestation
    secrets: _containers.RepeatedCompositeFieldContainer[SealedSecret]
    bundle: bytes
    dry_run: bool
    paused: bool
    def __init__(self, name: _Optional[str] = ..., namespace: _Optional[str] = ..., digest: _Optional[str] = ..., bundle_bytes: _Optional[int] = ..., commit: _Optional[str] = ..., options: _Optional[_Union[SyncOptions, _Mapping]] = ..., attestation: _Optional[_Union[Attestation, _Mapping]] = ..., secrets: _Optional[_Iterable[_Union[SealedSecret, _Mapping]]] = ..., bundle: _Optional[bytes] = ..., dry_run: _Optional[bool] = ..., paused: _Optional[bool] = ...) -> None: ...

class Attestation(_message.Message):
    __slots__ = ("key_id", "statement", "signature", "evidence")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    statement: bytes
    signature: bytes
    evidence: bytes
    def __init__(self, key_id: _Optional[str] = ..., statement: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., evidence: _Optional[bytes] = ...) -> None: ...

class SealedSecret(_message.Message):
    __slots__ = ("name", "version", "box")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BOX_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    box: bytes
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., box: _Optional[bytes] = ...) -> None: ...

class SyncOptions(_message.Message):
    __slots__ = ("create_namespace", "drift", "keep_on_prune", "namespace_labels", "namespace_annotations", "fail_on_conflict", "replace_immutable", "ignored", "health_rules", "wave_timeout_s", "deletion_budget")
    class NamespaceLabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class NamespaceAnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CREATE_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DRIFT_FIELD_NUMBER: _ClassVar[int]
    KEEP_ON_PRUNE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_LABELS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    FAIL_ON_CONFLICT_FIELD_NUMBER: _ClassVar[int]
    REPLACE_IMMUTABLE_FIELD_NUMBER: _ClassVar[int]
    IGNORED_FIELD_NUMBER: _ClassVar[int]
    HEALTH_RULES_FIELD_NUMBER: _ClassVar[int]
    WAVE_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    DELETION_BUDGET_FIELD_NUMBER: _ClassVar[int]
    create_namespace: bool
    drift: DriftPolicy
    keep_on_prune: bool
    namespace_labels: _containers.ScalarMap[str, str]
    namespace_annotations: _containers.ScalarMap[str, str]
    fail_on_conflict: bool
    replace_immutable: bool
    ignored: _containers.RepeatedCompositeFieldContainer[IgnoredDifference]
    health_rules: _containers.RepeatedCompositeFieldContainer[HealthRule]
    wave_timeout_s: int
    deletion_budget: int
    def __init__(self, create_namespace: _Optional[bool] = ..., drift: _Optional[_Union[DriftPolicy, str]] = ..., keep_on_prune: _Optional[bool] = ..., namespace_labels: _Optional[_Mapping[str, str]] = ..., namespace_annotations: _Optional[_Mapping[str, str]] = ..., fail_on_conflict: _Optional[bool] = ..., replace_immutable: _Optional[bool] = ..., ignored: _Optional[_Iterable[_Union[IgnoredDifference, _Mapping]]] = ..., health_rules: _Optional[_Iterable[_Union[HealthRule, _Mapping]]] = ..., wave_timeout_s: _Optional[int] = ..., deletion_budget: _Optional[int] = ...) -> None: ...

class IgnoredDifference(_message.Message):
    __slots__ = ("group", "kind", "namespace", "name", "pointers", "managers")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    POINTERS_FIELD_NUMBER: _ClassVar[int]
    MANAGERS_FIELD_NUMBER: _ClassVar[int]
    group: str
    kind: str
    namespace: str
    name: str
    pointers: _containers.RepeatedScalarFieldContainer[str]
    managers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group: _Optional[str] = ..., kind: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., pointers: _Optional[_Iterable[str]] = ..., managers: _Optional[_Iterable[str]] = ...) -> None: ...

class HealthRule(_message.Message):
    __slots__ = ("group", "kind", "health", "conditions", "message")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    group: str
    kind: str
    health: Health
    conditions: _containers.RepeatedCompositeFieldContainer[FieldCondition]
    message: str
    def __init__(self, group: _Optional[str] = ..., kind: _Optional[str] = ..., health: _Optional[_Union[Health, str]] = ..., conditions: _Optional[_Iterable[_Union[FieldCondition, _Mapping]]] = ..., message: _Optional[str] = ...) -> None: ...

class FieldCondition(_message.Message):
    __slots__ = ("pointer", "any_of")
    POINTER_FIELD_NUMBER: _ClassVar[int]
    ANY_OF_FIELD_NUMBER: _ClassVar[int]
    pointer: str
    any_of: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, pointer: _Optional[str] = ..., any_of: _Optional[_Iterable[str]] = ...) -> None: ...

class DesiredEnd(_message.Message):
    __slots__ = ("services",)
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    services: int
    def __init__(self, services: _Optional[int] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("id", "sync_now", "run_job", "cancel_job", "terminate", "upgrade", "render", "sync_objects", "freeze", "order")
    ID_FIELD_NUMBER: _ClassVar[int]
    SYNC_NOW_FIELD_NUMBER: _ClassVar[int]
    RUN_JOB_FIELD_NUMBER: _ClassVar[int]
    CANCEL_JOB_FIELD_NUMBER: _ClassVar[int]
    TERMINATE_FIELD_NUMBER: _ClassVar[int]
    UPGRADE_FIELD_NUMBER: _ClassVar[int]
    RENDER_FIELD_NUMBER: _ClassVar[int]
    SYNC_OBJECTS_FIELD_NUMBER: _ClassVar[int]
    FREEZE_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    id: str
    sync_now: SyncNow
    run_job: RunJob
    cancel_job: CancelJob
    terminate: Terminate
    upgrade: UpgradeAgent
    render: RenderOrder
    sync_objects: SyncObjects
    freeze: FreezeOrder
    order: Attestation
    def __init__(self, id: _Optional[str] = ..., sync_now: _Optional[_Union[SyncNow, _Mapping]] = ..., run_job: _Optional[_Union[RunJob, _Mapping]] = ..., cancel_job: _Optional[_Union[CancelJob, _Mapping]] = ..., terminate: _Optional[_Union[Terminate, _Mapping]] = ..., upgrade: _Optional[_Union[UpgradeAgent, _Mapping]] = ..., render: _Optional[_Union[RenderOrder, _Mapping]] = ..., sync_objects: _Optional[_Union[SyncObjects, _Mapping]] = ..., freeze: _Optional[_Union[FreezeOrder, _Mapping]] = ..., order: _Optional[_Union[Attestation, _Mapping]] = ...) -> None: ...

class FreezeOrder(_message.Message):
    __slots__ = ("statement",)
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    statement: str
    def __init__(self, statement: _Optional[str] = ...) -> None: ...

class RenderOrder(_message.Message):
    __slots__ = ("box",)
    BOX_FIELD_NUMBER: _ClassVar[int]
    box: bytes
    def __init__(self, box: _Optional[bytes] = ...) -> None: ...

class RunJob(_message.Message):
    __slots__ = ("namespace", "manifest", "timeout_s", "secrets", "follow", "fence")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    manifest: bytes
    timeout_s: int
    secrets: _containers.RepeatedCompositeFieldContainer[SealedSecret]
    follow: bool
    fence: Fence
    def __init__(self, namespace: _Optional[str] = ..., manifest: _Optional[bytes] = ..., timeout_s: _Optional[int] = ..., secrets: _Optional[_Iterable[_Union[SealedSecret, _Mapping]]] = ..., follow: _Optional[bool] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ...) -> None: ...

class CancelJob(_message.Message):
    __slots__ = ("command_id",)
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    command_id: str
    def __init__(self, command_id: _Optional[str] = ...) -> None: ...

class Terminate(_message.Message):
    __slots__ = ("service_id",)
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    service_id: str
    def __init__(self, service_id: _Optional[str] = ...) -> None: ...

class UpgradeAgent(_message.Message):
    __slots__ = ("version", "image")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    version: str
    image: str
    def __init__(self, version: _Optional[str] = ..., image: _Optional[str] = ...) -> None: ...

class SyncNow(_message.Message):
    __slots__ = ("service_id",)
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    service_id: str
    def __init__(self, service_id: _Optional[str] = ...) -> None: ...

class SyncObjects(_message.Message):
    __slots__ = ("service_id", "objects", "prune")
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    PRUNE_FIELD_NUMBER: _ClassVar[int]
    service_id: str
    objects: _containers.RepeatedCompositeFieldContainer[ObjectRef]
    prune: bool
    def __init__(self, service_id: _Optional[str] = ..., objects: _Optional[_Iterable[_Union[ObjectRef, _Mapping]]] = ..., prune: _Optional[bool] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("number", "at_ms", "status", "inventory", "result", "drift", "job", "facts", "mirrored", "verified")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    DRIFT_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    MIRRORED_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_FIELD_NUMBER: _ClassVar[int]
    number: int
    at_ms: int
    status: ServiceStatus
    inventory: Inventory
    result: CommandResult
    drift: Drift
    job: JobStatus
    facts: ClusterFacts
    mirrored: MirroredService
    verified: Verified
    def __init__(self, number: _Optional[int] = ..., at_ms: _Optional[int] = ..., status: _Optional[_Union[ServiceStatus, _Mapping]] = ..., inventory: _Optional[_Union[Inventory, _Mapping]] = ..., result: _Optional[_Union[CommandResult, _Mapping]] = ..., drift: _Optional[_Union[Drift, _Mapping]] = ..., job: _Optional[_Union[JobStatus, _Mapping]] = ..., facts: _Optional[_Union[ClusterFacts, _Mapping]] = ..., mirrored: _Optional[_Union[MirroredService, _Mapping]] = ..., verified: _Optional[_Union[Verified, _Mapping]] = ...) -> None: ...

class Verified(_message.Message):
    __slots__ = ("service_id", "sequence", "digest", "ok", "reason", "instead")
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    INSTEAD_FIELD_NUMBER: _ClassVar[int]
    service_id: str
    sequence: int
    digest: str
    ok: bool
    reason: str
    instead: str
    def __init__(self, service_id: _Optional[str] = ..., sequence: _Optional[int] = ..., digest: _Optional[str] = ..., ok: _Optional[bool] = ..., reason: _Optional[str] = ..., instead: _Optional[str] = ...) -> None: ...

class ServiceStatus(_message.Message):
    __slots__ = ("service_id", "sequence", "digest", "phase", "problems", "received_ms", "fetched_ms", "applied_ms", "healthy_ms", "written", "pruned", "awaiting", "message", "planned", "rehearsed", "drifted", "inputs")
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_MS_FIELD_NUMBER: _ClassVar[int]
    FETCHED_MS_FIELD_NUMBER: _ClassVar[int]
    APPLIED_MS_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_MS_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    PRUNED_FIELD_NUMBER: _ClassVar[int]
    AWAITING_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    REHEARSED_FIELD_NUMBER: _ClassVar[int]
    DRIFTED_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    service_id: str
    sequence: int
    digest: str
    phase: Phase
    problems: _containers.RepeatedCompositeFieldContainer[Problem]
    received_ms: int
    fetched_ms: int
    applied_ms: int
    healthy_ms: int
    written: int
    pruned: int
    awaiting: _containers.RepeatedCompositeFieldContainer[ObjectRef]
    message: str
    planned: _containers.RepeatedCompositeFieldContainer[PlannedChange]
    rehearsed: bool
    drifted: int
    inputs: InputVerdict
    def __init__(self, service_id: _Optional[str] = ..., sequence: _Optional[int] = ..., digest: _Optional[str] = ..., phase: _Optional[_Union[Phase, str]] = ..., problems: _Optional[_Iterable[_Union[Problem, _Mapping]]] = ..., received_ms: _Optional[int] = ..., fetched_ms: _Optional[int] = ..., applied_ms: _Optional[int] = ..., healthy_ms: _Optional[int] = ..., written: _Optional[int] = ..., pruned: _Optional[int] = ..., awaiting: _Optional[_Iterable[_Union[ObjectRef, _Mapping]]] = ..., message: _Optional[str] = ..., planned: _Optional[_Iterable[_Union[PlannedChange, _Mapping]]] = ..., rehearsed: _Optional[bool] = ..., drifted: _Optional[int] = ..., inputs: _Optional[_Union[InputVerdict, _Mapping]] = ...) -> None: ...

class InputCheck(_message.Message):
    __slots__ = ("kind", "subject", "result", "reason")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    kind: InputKind
    subject: str
    result: CheckResult
    reason: str
    def __init__(self, kind: _Optional[_Union[InputKind, str]] = ..., subject: _Optional[str] = ..., result: _Optional[_Union[CheckResult, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class InputVerdict(_message.Message):
    __slots__ = ("digest", "at_ms", "checks")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    digest: str
    at_ms: int
    checks: _containers.RepeatedCompositeFieldContainer[InputCheck]
    def __init__(self, digest: _Optional[str] = ..., at_ms: _Optional[int] = ..., checks: _Optional[_Iterable[_Union[InputCheck, _Mapping]]] = ...) -> None: ...

class PlannedChange(_message.Message):
    __slots__ = ("object", "change", "fields")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    object: ObjectRef
    change: Change
    fields: _containers.RepeatedCompositeFieldContainer[FieldChange]
    def __init__(self, object: _Optional[_Union[ObjectRef, _Mapping]] = ..., change: _Optional[_Union[Change, str]] = ..., fields: _Optional[_Iterable[_Union[FieldChange, _Mapping]]] = ...) -> None: ...

class FieldChange(_message.Message):
    __slots__ = ("pointer", "old", "new")
    POINTER_FIELD_NUMBER: _ClassVar[int]
    OLD_FIELD_NUMBER: _ClassVar[int]
    NEW_FIELD_NUMBER: _ClassVar[int]
    pointer: str
    old: str
    new: str
    def __init__(self, pointer: _Optional[str] = ..., old: _Optional[str] = ..., new: _Optional[str] = ...) -> None: ...

class Problem(_message.Message):
    __slots__ = ("object", "message", "reason", "source")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    object: ObjectRef
    message: str
    reason: str
    source: str
    def __init__(self, object: _Optional[_Union[ObjectRef, _Mapping]] = ..., message: _Optional[str] = ..., reason: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class ObjectRef(_message.Message):
    __slots__ = ("group", "version", "kind", "namespace", "name")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    group: str
    version: str
    kind: str
    namespace: str
    name: str
    def __init__(self, group: _Optional[str] = ..., version: _Optional[str] = ..., kind: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class Inventory(_message.Message):
    __slots__ = ("service_id", "complete", "present", "gone")
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    service_id: str
    complete: bool
    present: _containers.RepeatedCompositeFieldContainer[Component]
    gone: _containers.RepeatedCompositeFieldContainer[ObjectRef]
    def __init__(self, service_id: _Optional[str] = ..., complete: _Optional[bool] = ..., present: _Optional[_Iterable[_Union[Component, _Mapping]]] = ..., gone: _Optional[_Iterable[_Union[ObjectRef, _Mapping]]] = ...) -> None: ...

class Component(_message.Message):
    __slots__ = ("object", "uid", "owner_uid", "health", "message", "synced", "images", "labels", "generation", "hash", "finalizers", "fresh", "reason")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    OWNER_UID_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SYNCED_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    FINALIZERS_FIELD_NUMBER: _ClassVar[int]
    FRESH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    object: ObjectRef
    uid: str
    owner_uid: str
    health: Health
    message: str
    synced: bool
    images: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.ScalarMap[str, str]
    generation: int
    hash: str
    finalizers: _containers.RepeatedScalarFieldContainer[str]
    fresh: bool
    reason: str
    def __init__(self, object: _Optional[_Union[ObjectRef, _Mapping]] = ..., uid: _Optional[str] = ..., owner_uid: _Optional[str] = ..., health: _Optional[_Union[Health, str]] = ..., message: _Optional[str] = ..., synced: _Optional[bool] = ..., images: _Optional[_Iterable[str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., generation: _Optional[int] = ..., hash: _Optional[str] = ..., finalizers: _Optional[_Iterable[str]] = ..., fresh: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class CommandResult(_message.Message):
    __slots__ = ("command_id", "outcome", "message", "render")
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RENDER_FIELD_NUMBER: _ClassVar[int]
    command_id: str
    outcome: Outcome
    message: str
    render: RenderResult
    def __init__(self, command_id: _Optional[str] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., message: _Optional[str] = ..., render: _Optional[_Union[RenderResult, _Mapping]] = ...) -> None: ...

class RenderResult(_message.Message):
    __slots__ = ("digest", "source", "size", "count", "reads", "attestation", "cached", "charts", "files", "bases")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    READS_FIELD_NUMBER: _ClassVar[int]
    ATTESTATION_FIELD_NUMBER: _ClassVar[int]
    CACHED_FIELD_NUMBER: _ClassVar[int]
    CHARTS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    BASES_FIELD_NUMBER: _ClassVar[int]
    digest: str
    source: str
    size: int
    count: int
    reads: _containers.RepeatedScalarFieldContainer[str]
    attestation: Attestation
    cached: bool
    charts: _containers.RepeatedCompositeFieldContainer[FetchedChart]
    files: _containers.RepeatedCompositeFieldContainer[RenderedFile]
    bases: _containers.RepeatedCompositeFieldContainer[BaseFolder]
    def __init__(self, digest: _Optional[str] = ..., source: _Optional[str] = ..., size: _Optional[int] = ..., count: _Optional[int] = ..., reads: _Optional[_Iterable[str]] = ..., attestation: _Optional[_Union[Attestation, _Mapping]] = ..., cached: _Optional[bool] = ..., charts: _Optional[_Iterable[_Union[FetchedChart, _Mapping]]] = ..., files: _Optional[_Iterable[_Union[RenderedFile, _Mapping]]] = ..., bases: _Optional[_Iterable[_Union[BaseFolder, _Mapping]]] = ...) -> None: ...

class FetchedChart(_message.Message):
    __slots__ = ("url", "name")
    URL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    url: str
    name: str
    def __init__(self, url: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class RenderedFile(_message.Message):
    __slots__ = ("path", "objects")
    PATH_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    path: str
    objects: int
    def __init__(self, path: _Optional[str] = ..., objects: _Optional[int] = ...) -> None: ...

class BaseFolder(_message.Message):
    __slots__ = ("url", "folder", "ref")
    URL_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    REF_FIELD_NUMBER: _ClassVar[int]
    url: str
    folder: str
    ref: str
    def __init__(self, url: _Optional[str] = ..., folder: _Optional[str] = ..., ref: _Optional[str] = ...) -> None: ...

class Drift(_message.Message):
    __slots__ = ("service_id", "object", "manager", "paths", "deleted", "healed", "changes")
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    MANAGER_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    HEALED_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    service_id: str
    object: ObjectRef
    manager: str
    paths: _containers.RepeatedScalarFieldContainer[str]
    deleted: bool
    healed: bool
    changes: _containers.RepeatedCompositeFieldContainer[FieldChange]
    def __init__(self, service_id: _Optional[str] = ..., object: _Optional[_Union[ObjectRef, _Mapping]] = ..., manager: _Optional[str] = ..., paths: _Optional[_Iterable[str]] = ..., deleted: _Optional[bool] = ..., healed: _Optional[bool] = ..., changes: _Optional[_Iterable[_Union[FieldChange, _Mapping]]] = ...) -> None: ...

class JobStatus(_message.Message):
    __slots__ = ("command_id", "phase", "object", "message", "exit_code", "started_ms", "finished_ms", "log_tail", "outputs")
    class OutputsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_MS_FIELD_NUMBER: _ClassVar[int]
    LOG_TAIL_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    command_id: str
    phase: JobPhase
    object: ObjectRef
    message: str
    exit_code: int
    started_ms: int
    finished_ms: int
    log_tail: bytes
    outputs: _containers.ScalarMap[str, str]
    def __init__(self, command_id: _Optional[str] = ..., phase: _Optional[_Union[JobPhase, str]] = ..., object: _Optional[_Union[ObjectRef, _Mapping]] = ..., message: _Optional[str] = ..., exit_code: _Optional[int] = ..., started_ms: _Optional[int] = ..., finished_ms: _Optional[int] = ..., log_tail: _Optional[bytes] = ..., outputs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class JobLog(_message.Message):
    __slots__ = ("command_id", "offset", "data")
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    command_id: str
    offset: int
    data: bytes
    def __init__(self, command_id: _Optional[str] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class MirroredService(_message.Message):
    __slots__ = ("service_id", "name", "namespace", "repository", "ref", "folder", "commit", "digest", "sequence", "removed", "error", "committed_ms", "reason")
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REPOSITORY_FIELD_NUMBER: _ClassVar[int]
    REF_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    service_id: str
    name: str
    namespace: str
    repository: str
    ref: str
    folder: str
    commit: str
    digest: str
    sequence: int
    removed: bool
    error: str
    committed_ms: int
    reason: str
    def __init__(self, service_id: _Optional[str] = ..., name: _Optional[str] = ..., namespace: _Optional[str] = ..., repository: _Optional[str] = ..., ref: _Optional[str] = ..., folder: _Optional[str] = ..., commit: _Optional[str] = ..., digest: _Optional[str] = ..., sequence: _Optional[int] = ..., removed: _Optional[bool] = ..., error: _Optional[str] = ..., committed_ms: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Pulse(_message.Message):
    __slots__ = ("problem",)
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    problem: str
    def __init__(self, problem: _Optional[str] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("reason", "message")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    reason: GoodbyeReason
    message: str
    def __init__(self, reason: _Optional[_Union[GoodbyeReason, str]] = ..., message: _Optional[str] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("digest", "offset")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    digest: str
    offset: int
    def __init__(self, digest: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("offset", "total", "data")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    offset: int
    total: int
    data: bytes
    def __init__(self, offset: _Optional[int] = ..., total: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("command_id", "data")
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    command_id: str
    data: bytes
    def __init__(self, command_id: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("name", "kubernetes_uid", "dry_run")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KUBERNETES_UID_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    name: str
    kubernetes_uid: str
    dry_run: bool
    def __init__(self, name: _Optional[str] = ..., kubernetes_uid: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class Joined(_message.Message):
    __slots__ = ("cluster_id", "handle", "deploy_token")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    DEPLOY_TOKEN_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    handle: str
    deploy_token: str
    def __init__(self, cluster_id: _Optional[str] = ..., handle: _Optional[str] = ..., deploy_token: _Optional[str] = ...) -> None: ...

class Uploaded(_message.Message):
    __slots__ = ("digest",)
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    digest: str
    def __init__(self, digest: _Optional[str] = ...) -> None: ...
