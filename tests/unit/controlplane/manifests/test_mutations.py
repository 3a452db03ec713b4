"""Everything that the API can change is a field of a kind, or has a reason not to be."""

from graphql import GraphQLObjectType

from tests.fakes.empty_control_plane import schema
from tests.fakes.manifest_world import manifest_world

_USUAL = ("create", "update", "delete")

FIELDS = {
    "upsertUser": "User", "disableUser": "User",
    "createTrustRule": "TrustedIssuer", "updateTrustRule": "TrustedIssuer",
    "deleteTrustRule": "TrustedIssuer",
    "createGroupMember": "Group.members", "deleteGroupMember": "Group.members",
    "updateRbac": "Cluster.bindings",
    "saveServiceContext": "Context", "deleteServiceContext": "Context",
    "overrideServiceContext": "Context.overrides",
    "saveSecret": "Secret", "useSecrets": "Service.secrets",
    "saveServiceFlow": "Service.exports",
    "updateDeploymentSettings": "AgentSettings",
    "upsertNotificationSink": "NotificationSink",
    "upsertNotificationRouter": "NotificationRule",
    "deleteNotificationRouter": "NotificationRule",
    "overrideGlobalService": "GlobalService.overrides",
    "freezeClusterGroup": "ClusterGroup.frozen", "unfreezeClusterGroup": "ClusterGroup.frozen",
    "createServiceDeployment": "Service", "updateServiceDeployment": "Service",
    "deleteServiceDeployment": "Service", "cloneService": "Service",
    "savePipeline": "Pipeline",
    "pausePipeline": "Pipeline.paused", "resumePipeline": "Pipeline.paused",
}  # fmt: skip
"""Kind, or field of a kind, of mutations whose name does not say it."""

_CREDENTIAL = "a credential, which is shown once and stands in no file"
_ACTION = "an action, and no state that a file could describe"
_DECISION = "a decision about one release, gate or request at one time"
_REMOTE = "an action in a cluster, whose result its agent reports"
REASONS = {
    "createServiceAccountToken": _CREDENTIAL,
    "createAccessToken": _CREDENTIAL,
    "deleteAccessToken": _CREDENTIAL,
    "createTicket": _CREDENTIAL,
    "createBootstrapToken": _CREDENTIAL,
    "revokeBootstrapToken": _CREDENTIAL,
    "rotateClusterToken": _CREDENTIAL,
    "signOutEverywhere": _ACTION,
    "requestAccess": _DECISION,
    "approveAccess": _DECISION,
    "denyAccess": _DECISION,
    "revokeAccess": "ends temporary access; a binding with `expiresAt` is a RoleBinding",
    "confirmDeletions": _DECISION,
    "terminateService": _REMOTE,
    "upgradeAgent": _REMOTE,
    "upgradeAgents": _REMOTE,
    "deliverFreezeStatement": "a statement that its author signed; the agents verify and keep it",
    "runClusterJob": _REMOTE,
    "retryClusterJob": _REMOTE,
    "cancelClusterJob": _REMOTE,
    "endStream": _REMOTE,
    "revokeSecretVersion": "destroys an old value; a file has the present one only",
    "decideSecretRotation": _DECISION,
    "refreshSecret": _ACTION,
    "rotateEncryptionKeys": _ACTION,
    "testNotificationSink": _ACTION,
    "resendNotification": _ACTION,
    "syncGlobalService": _ACTION,
    "syncServiceSet": _ACTION,
    "syncManagedNamespace": _ACTION,
    "syncHelmRepository": _ACTION,
    "syncGitRepository": _ACTION,
    "syncOciRepository": _ACTION,
    "syncConfigurationSource": _ACTION,
    "syncClusterSource": _ACTION,
    "approveConfigurationSource": _DECISION,
    "skipGate": _DECISION,
    "answerGate": _DECISION,
    "approveGate": _DECISION,
    "rejectGate": _DECISION,
    "startRelease": _ACTION,
    "checkTrigger": _ACTION,
    "abortRollout": _DECISION,
    "acknowledgeRollback": _DECISION,
    "retryPipeline": _DECISION,
    "denyRevision": "a finding: agents and pipelines deny revisions as well, and so never a file",
    "allowRevision": "ends a finding of an agent, a pipeline or a person",
    "applyManifests": "applies the kinds themselves",
    "deleteManifests": "deletes the kinds themselves",
    "saveView": "a filter of a list in the console; nothing else reads it",
    "deleteView": "a filter of a list in the console; nothing else reads it",
    "detachCluster": "a deletion that keeps the objects; the files then lack the cluster",
    "detachServiceDeployment": "a deletion that keeps the objects; the files then lack the service",
    "kickService": _ACTION,
    "syncServiceObjects": _ACTION,
    "forceService": _ACTION,
    "proceedService": _DECISION,
    "rollbackService": _DECISION,
    "releaseService": _DECISION,
}


def _mutations() -> set[str]:
    found = schema().mutation_type
    assert isinstance(found, GraphQLObjectType)
    return set(found.fields)


def test_every_mutation_has_a_kind_or_a_reason() -> None:
    # GraphQL writes abbreviations as words: the kind OCIRepository is OciRepository there.
    kinds = {
        (verb + kind).lower() for kind in manifest_world().manifests.kind_names() for verb in _USUAL
    }
    others = {mutation for mutation in _mutations() if mutation.lower() not in kinds}
    assert others == FIELDS.keys() | REASONS.keys()
    assert FIELDS.keys().isdisjoint(REASONS)
    assert all(len(reason) > 20 for reason in REASONS.values())


def test_the_named_fields_exist() -> None:
    manifests = manifest_world().manifests
    for place in FIELDS.values():
        kind, _, field = place.partition(".")
        spec = manifests.schema(kind)["properties"]["spec"]["properties"]
        assert not field or field in spec, place
