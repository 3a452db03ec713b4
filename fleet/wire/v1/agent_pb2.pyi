from fleet.wire.v1 import options_pb2 as _options_pb2
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

class Health(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HEALTH_UNSPECIFIED: _ClassVar[Health]
    HEALTH_HEALTHY: _ClassVar[Health]
    HEALTH_PROGRESSING: _ClassVar[Health]
    HEALTH_FAILED: _ClassVar[Health]
    HEALTH_PAUSED: _ClassVar[Health]
    HEALTH_MISSING: _ClassVar[Health]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_SUCCEEDED: _ClassVar[Outcome]
    OUTCOME_FAILED: _ClassVar[Outcome]
    OUTCOME_REFUSED: _ClassVar[Outcome]

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
HEALTH_UNSPECIFIED: Health
HEALTH_HEALTHY: Health
HEALTH_PROGRESSING: Health
HEALTH_FAILED: Health
HEALTH_PAUSED: Health
HEALTH_MISSING: Health
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_SUCCEEDED: Outcome
OUTCOME_FAILED: Outcome
OUTCOME_REFUSED: Outcome
GOODBYE_REASON_UNSPECIFIED: GoodbyeReason
GOODBYE_REASON_DRAINING: GoodbyeReason
GOODBYE_REASON_REPLACED: GoodbyeReason
GOODBYE_REASON_REVOKED: GoodbyeReason
GOODBYE_REASON_PROTOCOL: GoodbyeReason

class Frames(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AgentMessage(_message.Message):
    __slots__ = ("hello", "report", "pulse")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    PULSE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    report: Report
    pulse: Pulse
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., pulse: _Optional[_Union[Pulse, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("lowest_protocol", "highest_protocol", "agent_version", "instance_id", "mode", "facts", "held", "sealing_key")
    LOWEST_PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    SEALING_KEY_FIELD_NUMBER: _ClassVar[int]
    lowest_protocol: int
    highest_protocol: int
    agent_version: str
    instance_id: str
    mode: Mode
    facts: ClusterFacts
    held: _containers.RepeatedCompositeFieldContainer[Held]
    sealing_key: bytes
    def __init__(self, lowest_protocol: _Optional[int] = ..., highest_protocol: _Optional[int] = ..., agent_version: _Optional[str] = ..., instance_id: _Optional[str] = ..., mode: _Optional[_Union[Mode, str]] = ..., facts: _Optional[_Union[ClusterFacts, _Mapping]] = ..., held: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., sealing_key: _Optional[bytes] = ...) -> None: ...

class Held(_message.Message):
    __slots__ = ("service_id", "sequence")
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    service_id: str
    sequence: int
    def __init__(self, service_id: _Optional[str] = ..., sequence: _Optional[int] = ...) -> None: ...

class ClusterFacts(_message.Message):
    __slots__ = ("kubernetes_version", "distribution", "nodes")
    KUBERNETES_VERSION_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    kubernetes_version: str
    distribution: str
    nodes: int
    def __init__(self, kubernetes_version: _Optional[str] = ..., distribution: _Optional[str] = ..., nodes: _Optional[int] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("protocol", "cluster_id", "handle", "hub_version", "pulse_ms", "acknowledged")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    HUB_VERSION_FIELD_NUMBER: _ClassVar[int]
    PULSE_MS_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    cluster_id: str
    handle: str
    hub_version: str
    pulse_ms: int
    acknowledged: int
    def __init__(self, protocol: _Optional[int] = ..., cluster_id: _Optional[str] = ..., handle: _Optional[str] = ..., hub_version: _Optional[str] = ..., pulse_ms: _Optional[int] = ..., acknowledged: _Optional[int] = ...) -> None: ...

class Desired(_message.Message):
    __slots__ = ("service_id", "sequence", "spec", "removal")
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    REMOVAL_FIELD_NUMBER: _ClassVar[int]
    service_id: str
    sequence: int
    spec: ServiceSpec
    removal: Removal
    def __init__(self, service_id: _Optional[str] = ..., sequence: _Optional[int] = ..., spec: _Optional[_Union[ServiceSpec, _Mapping]] = ..., removal: _Optional[_Union[Removal, str]] = ...) -> None: ...

class ServiceSpec(_message.Message):
    __slots__ = ("name", "namespace", "digest", "bundle_bytes", "object_count", "commit", "options")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    OBJECT_COUNT_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    namespace: str
    digest: str
    bundle_bytes: int
    object_count: int
    commit: str
    options: SyncOptions
    def __init__(self, name: _Optional[str] = ..., namespace: _Optional[str] = ..., digest: _Optional[str] = ..., bundle_bytes: _Optional[int] = ..., object_count: _Optional[int] = ..., commit: _Optional[str] = ..., options: _Optional[_Union[SyncOptions, _Mapping]] = ...) -> None: ...

class SyncOptions(_message.Message):
    __slots__ = ("create_namespace", "dry_run", "paused", "drift", "keep_on_prune", "namespace_labels", "namespace_annotations")
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
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    DRIFT_FIELD_NUMBER: _ClassVar[int]
    KEEP_ON_PRUNE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_LABELS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    create_namespace: bool
    dry_run: bool
    paused: bool
    drift: DriftPolicy
    keep_on_prune: bool
    namespace_labels: _containers.ScalarMap[str, str]
    namespace_annotations: _containers.ScalarMap[str, str]
    def __init__(self, create_namespace: _Optional[bool] = ..., dry_run: _Optional[bool] = ..., paused: _Optional[bool] = ..., drift: _Optional[_Union[DriftPolicy, str]] = ..., keep_on_prune: _Optional[bool] = ..., namespace_labels: _Optional[_Mapping[str, str]] = ..., namespace_annotations: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DesiredEnd(_message.Message):
    __slots__ = ("services",)
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    services: int
    def __init__(self, services: _Optional[int] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("id", "sync_now")
    ID_FIELD_NUMBER: _ClassVar[int]
    SYNC_NOW_FIELD_NUMBER: _ClassVar[int]
    id: str
    sync_now: SyncNow
    def __init__(self, id: _Optional[str] = ..., sync_now: _Optional[_Union[SyncNow, _Mapping]] = ...) -> None: ...

class SyncNow(_message.Message):
    __slots__ = ("service_id",)
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    service_id: str
    def __init__(self, service_id: _Optional[str] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("number", "at_ms", "status", "inventory", "result", "drift")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    DRIFT_FIELD_NUMBER: _ClassVar[int]
    number: int
    at_ms: int
    status: ServiceStatus
    inventory: Inventory
    result: CommandResult
    drift: Drift
    def __init__(self, number: _Optional[int] = ..., at_ms: _Optional[int] = ..., status: _Optional[_Union[ServiceStatus, _Mapping]] = ..., inventory: _Optional[_Union[Inventory, _Mapping]] = ..., result: _Optional[_Union[CommandResult, _Mapping]] = ..., drift: _Optional[_Union[Drift, _Mapping]] = ...) -> None: ...

class ServiceStatus(_message.Message):
    __slots__ = ("service_id", "sequence", "digest", "phase", "problems", "received_ms", "fetched_ms", "applied_ms", "healthy_ms", "written", "pruned")
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
    def __init__(self, service_id: _Optional[str] = ..., sequence: _Optional[int] = ..., digest: _Optional[str] = ..., phase: _Optional[_Union[Phase, str]] = ..., problems: _Optional[_Iterable[_Union[Problem, _Mapping]]] = ..., received_ms: _Optional[int] = ..., fetched_ms: _Optional[int] = ..., applied_ms: _Optional[int] = ..., healthy_ms: _Optional[int] = ..., written: _Optional[int] = ..., pruned: _Optional[int] = ...) -> None: ...

class Problem(_message.Message):
    __slots__ = ("object", "message", "reason")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    object: ObjectRef
    message: str
    reason: str
    def __init__(self, object: _Optional[_Union[ObjectRef, _Mapping]] = ..., message: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("object", "uid", "owner_uid", "health", "message", "synced", "images")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    OWNER_UID_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SYNCED_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    object: ObjectRef
    uid: str
    owner_uid: str
    health: Health
    message: str
    synced: bool
    images: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, object: _Optional[_Union[ObjectRef, _Mapping]] = ..., uid: _Optional[str] = ..., owner_uid: _Optional[str] = ..., health: _Optional[_Union[Health, str]] = ..., message: _Optional[str] = ..., synced: _Optional[bool] = ..., images: _Optional[_Iterable[str]] = ...) -> None: ...

class CommandResult(_message.Message):
    __slots__ = ("command_id", "outcome", "message")
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    command_id: str
    outcome: Outcome
    message: str
    def __init__(self, command_id: _Optional[str] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., message: _Optional[str] = ...) -> None: ...

class Drift(_message.Message):
    __slots__ = ("service_id", "object", "manager", "paths", "deleted", "healed")
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    MANAGER_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    HEALED_FIELD_NUMBER: _ClassVar[int]
    service_id: str
    object: ObjectRef
    manager: str
    paths: _containers.RepeatedScalarFieldContainer[str]
    deleted: bool
    healed: bool
    def __init__(self, service_id: _Optional[str] = ..., object: _Optional[_Union[ObjectRef, _Mapping]] = ..., manager: _Optional[str] = ..., paths: _Optional[_Iterable[str]] = ..., deleted: _Optional[bool] = ..., healed: _Optional[bool] = ...) -> None: ...

class Pulse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

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
