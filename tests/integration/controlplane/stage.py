"""A control plane full of things and callers, on which every operation of the API is tried."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controlplane.access.model.users import UserKind
from controlplane.access.operations.access_requests import AccessRequests
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.operations.role_bindings import BindingDraft, RoleBindings
from controlplane.access.operations.users import Users
from controlplane.agents.operations.jobs import ClusterJobs
from controlplane.api.schema import schema
from controlplane.audit.model.chains import AuditFilter
from controlplane.audit.ports import AuditLog
from controlplane.authorization import BUILT_IN, INSTALLATION, SYSTEM, Actor, Scope
from controlplane.compose import ControlPlane, OutsidePorts
from controlplane.configuration_sources.model.source import SourceResult
from controlplane.configuration_sources.ports import ConfigurationSourceStore
from controlplane.platform.audit_entry import AuditEntry
from controlplane.platform.batch import is_batch_open
from controlplane.platform.context import SECRET
from controlplane.platform.graphql.context import Context
from controlplane.platform.ports import PageQuery, Store, Transaction
from controlplane.secrets.ports import SecretStore, SecretVersionStore
from controlplane.secrets.sources.vault import VaultSource
from controlplane.services.model.service import Component, OwnerKind, Revision
from controlplane.services.ports import ComponentStore, RevisionStore, ServiceStore
from controlplane.settings import ControlPlaneSettings
from controlplane.store.audit_log import SqlAudit
from core.identity import ClusterId, ServiceId
from core.spec.statements.freeze import FreezeAction, FreezeStatement
from tests import migrated
from tests.fakes.clock import FakeClock
from tests.fakes.control_plane import FakeProxySessions, built
from tests.fakes.manifests import FakeManifests, config_map

_NEW_GLOBAL = (
    'attributes: {{name: "new", projectId: "{project}", template: {{name: "new", namespace: "x",'
    ' repositoryId: "{repository}", git: {{ref: "main", folder: "x"}}}}}}'
)

_GROUP = (
    "{{{{apiVersion: towline.io/v1, kind: ClusterGroup,"
    + " metadata: {{{{name: {}, project: own}}}}}}}}"
)

_PIPELINE = (
    "{{apiVersion: towline.io/v1, kind: Pipeline, metadata: {{name: line}},"
    + " spec: {{stages: [], edges: []}}}}"
)

# Arguments that reach a thing of the project; {names} are its ids.
_FROZEN = FreezeStatement(FreezeAction.FREEZE, ("*",), 1, 1).sign(
    Ed25519PrivateKey.from_private_bytes(bytes(32))
)
ARGUMENTS = {
    "user": 'email: "other@example.org"',
    "group": 'name: "team"',
    "groupMembers": 'groupId: "{group}"',
    "project": 'id: "{project}"',
    "role": 'name: "viewer"',
    "roleBindings": 'scope: "project:{project}"',
    "can": 'verb: READ, kind: CLUSTER, id: "{cluster}"',
    "whoCan": 'verb: READ, kind: CLUSTER, id: "{cluster}"',
    "clusterJobLogs": 'id: "{job}"',
    "secretDelta": 'id: "{secret}", since: "2026-01-01T00:00:00Z"',
    "serviceDeploymentDelta": 'id: "{service}", since: "2026-01-01T00:00:00Z"',
    "clusterDelta": 'id: "{cluster}", since: "2026-01-01T00:00:00Z"',
    "pipelineDelta": 'id: "{pipeline}", since: "2026-01-01T00:00:00Z"',
    "dryRunPlan": 'serviceId: "{service}"',
    "clusterJob": 'id: "{job}"',
    "clusterJobs": 'clusterId: "{cluster}"',
    "sessionRecording": 'requestId: "{cluster}", offset: 0',
    "serviceDiff": 'id: "{service}", ref: "main"',
    "serviceManifests": 'id: "{service}"',
    "fleetDiff": 'repositoryId: "{repository}", ref: "main"',
    "search": 'q: "kind:Pod"',
    "places": 'q: "e"',
    "deliveryReport": 'since: "2026-01-01T00:00:00Z", until: "2026-02-01T00:00:00Z"',
    "fleet": 'at: "2026-01-01T00:00:00Z"',
    "deploymentHistory": "first: 5",
    "fleetChanges": 'then: "2020-01-01T00:00:00Z", now: "2030-01-01T00:00:00Z"',
    "commitTrace": 'sha: "0000000", repositoryId: "{repository}"',
    "cluster": 'id: "{cluster}"',
    "gitRepository": 'id: "{repository}"',
    "helmRepository": 'id: "{charts}"',
    "ociRepository": 'id: "{artifacts}"',
    "serviceDeployment": 'id: "{service}"',
    "revisions": 'serviceId: "{service}"',
    "pipeline": 'id: "{pipeline}"',
    "gateMeasurements": 'id: "{gate}"',
    "serviceContext": 'name: "shared"',
    "saveServiceContext": 'name: "new", attributes: {{projectId: "{project}"}}',
    "deleteServiceContext": 'id: "{context}"',
    "serviceFlow": 'serviceId: "{service}"',
    "affectedServices": 'serviceId: "{second}"',
    "contextOverrides": 'id: "{context}"',
    "serviceContextValues": 'serviceId: "{service}"',
    "saveServiceFlow": 'serviceId: "{service}", attributes: {{exports: []}}',
    "overrideServiceContext": 'id: "{context}", layer: CLUSTER, placeId: "{cluster}",'
    ' configuration: "{{}}"',
    "secret": 'name: "own"',
    "secretVersions": 'id: "{secret}"',
    "secretConsumers": 'id: "{secret}"',
    "serviceSecrets": 'serviceId: "{service}"',
    "saveSecret": 'name: "new", attributes: {{projectId: "{project}", value: "x"}}',
    "deleteSecret": 'id: "{idle_secret}"',
    "useSecrets": 'serviceId: "{second}", uses: [{{name: "x", secretId: "{secret}"}}]',
    "revokeSecretVersion": 'id: "{secret}", number: 1',
    "decideSecretRotation": 'id: "{idle_secret}", decision: ABORT',
    "refreshSecret": 'id: "{idle_secret}"',
    "updateDeploymentSettings": 'attributes: {{agentHelmValues: "x: 1"}}',
    "createAgentSettings": 'attributes: {{name: "new"}}',
    "updateAgentSettings": 'id: "{settings}", attributes: {{priority: 1}}',
    "deleteAgentSettings": 'id: "{settings}"',
    "settingsOfNewCluster": 'handle: "new", tags: []',
    "updateUser": 'id: "{other}", attributes: {{name: "renamed"}}',
    "forceService": 'id: "{service}"',
    "proceedService": 'id: "{waiting}"',
    "cloneService": 'serviceId: "{service}", clusterId: "{cluster}", attributes: {{name: "copy"}}',
    "upsertUser": 'attributes: {{email: "new@example.org"}}',
    "disableUser": 'id: "{other}", disabled: true',
    "createServiceAccount": 'attributes: {{name: "new"}}',
    "updateServiceAccount": 'id: "{account}", attributes: {{name: "renamed"}}',
    "createServiceAccountToken": 'id: "{account}", attributes: {{name: "x"}}',
    "createTrustRule": 'attributes: {{name: "new", serviceAccountId: "{account}",'
    ' issuer: "https://ci.example.org", audience: "a", subject: "s"}}',
    "updateTrustRule": 'id: "{trust}", attributes: {{subject: "other"}}',
    "deleteTrustRule": 'id: "{trust}"',
    "createAccessToken": 'attributes: {{name: "x"}}',
    "deleteAccessToken": 'id: "{token}"',
    "createGroup": 'attributes: {{name: "new"}}',
    "updateGroup": 'groupId: "{group}", attributes: {{name: "renamed"}}',
    "deleteGroup": 'groupId: "{group}"',
    "createGroupMember": 'groupId: "{group}", userId: "{other}"',
    "deleteGroupMember": 'groupId: "{group}", userId: "{other}"',
    "createProject": 'attributes: {{name: "new"}}',
    "updateProject": 'id: "{project}", attributes: {{name: "renamed"}}',
    "deleteProject": 'id: "{project}"',
    "updateRbac": 'clusterId: "{cluster}", rbac: {{readBindings: []}}',
    "createRole": 'attributes: {{name: "new"}}',
    "updateRole": 'id: "{role}", attributes: {{name: "renamed"}}',
    "deleteRole": 'id: "{role}"',
    "createRoleBinding": 'attributes: {{role: "viewer", scope: "project:{project}",'
    ' user: "{other}"}}',
    "deleteRoleBinding": 'id: "{binding}"',
    "requestAccess": 'role: "viewer", scope: "project:{project}", minutes: 5, reason: "x"',
    "approveAccess": 'id: "{request}"',
    "denyAccess": 'id: "{request}"',
    "revokeAccess": 'id: "{request}"',
    "confirmDeletions": 'serviceId: "{service}", objects: [{{kind: "X", name: "x"}}]',
    "syncServiceObjects": 'serviceId: "{service}", objects: [{{kind: "X", name: "x"}}]',
    "terminateService": 'serviceId: "{service}"',
    "upgradeAgent": 'clusterId: "{cluster}", version: "1.0.0", image: "x"',
    "deliverFreezeStatement": f'clusterId: "{{cluster}}", statement: "{_FROZEN}"',
    "upgradeAgents": 'groupId: "{clusters}", version: "1.0.0", image: "x"',
    "runClusterJob": 'clusterId: "{cluster}", attributes:'
    ' {{namespace: "x", manifest: "{job_json}"}}',
    "retryClusterJob": 'id: "{job}"',
    "cancelClusterJob": 'id: "{job}"',
    "endStream": 'id: "{stream}"',
    "createCluster": 'attributes: {{name: "new", projectId: "{project}"}}',
    "updateCluster": 'id: "{cluster}", attributes: {{name: "renamed"}}',
    "deleteCluster": 'id: "{cluster}"',
    "detachCluster": 'id: "{cluster}"',
    "rotateClusterToken": 'id: "{cluster}"',
    "createGitRepository": 'attributes: {{url: "https://git.example.org/new.git",'
    ' projectId: "{project}"}}',
    "updateGitRepository": 'id: "{repository}", attributes:'
    ' {{url: "https://git.example.org/own.git"}}',
    "deleteGitRepository": 'id: "{lonely}"',
    "syncGitRepository": 'id: "{repository}"',
    "createHelmRepository": 'attributes: {{url: "https://charts.example.org/new",'
    ' projectId: "{project}"}}',
    "updateHelmRepository": 'id: "{charts}", attributes: {{username: "x"}}',
    "deleteHelmRepository": 'id: "{charts}"',
    "syncHelmRepository": 'id: "{charts}"',
    "createOciRepository": 'attributes: {{url: "oci://registry.example.org/new",'
    ' projectId: "{project}"}}',
    "updateOciRepository": 'id: "{artifacts}", attributes: {{username: "x"}}',
    "deleteOciRepository": 'id: "{artifacts}"',
    "syncOciRepository": 'id: "{artifacts}"',
    "createServiceDeployment": 'clusterId: "{cluster}", attributes:'
    ' {{name: "new", namespace: "x"}}',
    "updateServiceDeployment": 'id: "{service}", attributes: {{version: "1.0.1"}}',
    "deleteServiceDeployment": 'id: "{service}"',
    "detachServiceDeployment": 'id: "{service}"',
    "kickService": 'serviceId: "{service}"',
    "rollbackService": 'id: "{service}", revisionId: "{revision}"',
    "releaseService": 'id: "{service}"',
    "savePipeline": 'name: "new", attributes: {{projectId: "{project}",'
    ' stages: [{{name: "a", services: [{{serviceId: "{service}"}}]}}]}}',
    "deletePipeline": 'id: "{pipeline}"',
    "approveGate": 'id: "{gate}", digests: [{{serviceId: "{service}", digest: "{digest}"}}]',
    "rejectGate": 'id: "{gate}"',
    "pausePipeline": 'id: "{pipeline}"',
    "resumePipeline": 'id: "{pipeline}"',
    "pipelineWhatIf": 'id: "{pipeline}", attributes: {{stages: [], edges: []}},'
    ' since: "2020-01-01T00:00:00Z", until: "2030-01-01T00:00:00Z"',
    "skipGate": 'id: "{gate}", releaseId: "{release}", reason: "x"',
    "answerGate": 'id: "{gate}", releaseId: "{release}", passed: true',
    "startRelease": 'id: "{pipeline}"',
    "checkTrigger": 'id: "{pipeline}", trigger: "nightly"',
    "abortRollout": 'id: "{pipeline}", stage: "prod"',
    "acknowledgeRollback": 'id: "{pipeline}", stage: "prod"',
    "denyRevision": 'revision: "sha256:0123456789ab", reason: "x"',
    "allowRevision": 'revision: "{refused}"',
    "retryPipeline": 'id: "{pipeline}", stage: "prod"',
    "component": 'id: "component"',
    "componentLive": 'id: "component"',
    "componentBlame": 'id: "component"',
    "componentEvents": 'id: "component"',
    "serviceEvents": 'serviceId: "{service}"',
    "objectRelations": 'serviceId: "{service}"',
    "serviceFence": 'serviceId: "{service}"',
    "fenceUse": 'projectId: "{project}"',
    "serviceProvenance": 'serviceId: "{service}"',
    "globalService": 'id: "{global}"',
    "globalServiceClusters": 'id: "{global}"',
    "globalServiceServices": 'id: "{global}"',
    "previewGlobalService": _NEW_GLOBAL,
    "createGlobalService": _NEW_GLOBAL,
    "updateGlobalService": 'id: "{global}", attributes: {{name: "renamed"}}',
    "deleteGlobalService": 'id: "{global}"',
    "syncGlobalService": 'id: "{global}"',
    "overrideGlobalService": 'id: "{global}", clusterId: "{cluster}",'
    ' attributes: {{version: "2.0.0"}}',
    "serviceSet": 'id: "{set}"',
    "serviceSetServices": 'id: "{set}"',
    "previewServiceSet": _NEW_GLOBAL,
    "createServiceSet": _NEW_GLOBAL,
    "updateServiceSet": 'id: "{set}", attributes: {{name: "renamed"}}',
    "deleteServiceSet": 'id: "{set}"',
    "syncServiceSet": 'id: "{set}"',
    "managedNamespace": 'id: "{namespace}"',
    "managedNamespaceServices": 'id: "{namespace}"',
    "createManagedNamespace": 'attributes: {{name: "new", projectId: "{project}"}}',
    "updateManagedNamespace": 'id: "{namespace}", attributes: {{name: "renamed"}}',
    "deleteManagedNamespace": 'id: "{namespace}"',
    "syncManagedNamespace": 'id: "{namespace}"',
    "clusterGroup": 'id: "{clusters}"',
    "clusterGroupClusters": 'id: "{clusters}"',
    "applyManifests": 'sources: [{{file: "new.yaml", content: "' + _GROUP.format("new") + '"}}]',
    "deleteManifests": 'sources: [{{file: "old.yaml", content: "' + _GROUP.format("old") + '"}}]',
    "manifest": 'kind: "ClusterGroup", name: "old"',
    "manifestSchema": 'kind: "ClusterGroup"',
    "fieldManagers": 'kind: "ClusterGroup", name: "old"',
    "manifestWhatIf": 'source: {{file: "line.yaml", content: "' + _PIPELINE + '"}},'
    ' since: "2020-01-01T00:00:00Z", until: "2030-01-01T00:00:00Z"',
    "savedView": 'id: "{view}"',
    "saveView": 'attributes: {{name: "new", list: "services", sharing: PROJECT,'
    ' projectId: "{project}"}}',
    "deleteView": 'id: "{view}"',
    "bootstrapToken": 'id: "{bootstrap}"',
    "createBootstrapToken": 'attributes: {{name: "new", projectId: "{project}"}}',
    "revokeBootstrapToken": 'id: "{bootstrap}"',
    "createClusterGroup": 'attributes: {{name: "new", projectId: "{project}"}}',
    "updateClusterGroup": 'id: "{clusters}", attributes: {{name: "renamed"}}',
    "deleteClusterGroup": 'id: "{clusters}"',
    "freezeClusterGroup": 'id: "{clusters}"',
    "unfreezeClusterGroup": 'id: "{clusters}"',
    "configurationSource": 'id: "{source}"',
    "createConfigurationSource": 'attributes: {{name: "new", projectId: "{project}",'
    ' repositoryId: "{repository}", folder: "new", serviceAccountId: "{account}"}}',
    "updateConfigurationSource": 'id: "{source}", attributes: {{suspended: true}}',
    "deleteConfigurationSource": 'id: "{source}"',
    "clusterSource": 'id: "{clusterSource}"',
    "createClusterSource": 'attributes: {{name: "new", projectId: "{project}",'
    ' clusterId: "{cluster}", serviceAccountId: "{account}"}}',
    "updateClusterSource": 'id: "{clusterSource}", attributes: {{suspended: true}}',
    "deleteClusterSource": 'id: "{clusterSource}"',
    "syncClusterSource": 'id: "{clusterSource}"',
    "syncConfigurationSource": 'id: "{source}"',
    "approveConfigurationSource": 'id: "{source}", digest: "planned"',
    "notificationSink": 'id: "{sink}"',
    "notificationRouter": 'id: "{router}"',
    "upsertNotificationSink": 'attributes: {{name: "new", type: SLACK, projectId: "{project}",'
    ' configuration: {{slack: {{url: "https://hooks.example.org/new"}}}}}}',
    "deleteNotificationSink": 'id: "{lonely_sink}"',
    "upsertNotificationRouter": 'attributes: {{name: "new", events: ["*"], projectId: "{project}",'
    ' routerSinks: [{{sinkId: "{sink}"}}]}}',
    "deleteNotificationRouter": 'id: "{router}"',
    "testNotificationSink": 'id: "{sink}"',
    "resendNotification": 'id: "{delivery}"',
}


# What no release or service of the stage has, where only the right to name it is tried.
_UNREAL = {"release": "r1", "digest": "sha256:0", "stream": "none"}


class _Undo(Exception):
    """Ends a transaction that is not to be kept."""


class Undoing:
    """The store, but for what is written; `written` counts transactions that came to their end.

    `rows` are the audit rows that those would have left. `kept` prepares what a case needs.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read = store.read
        self.written = 0
        self.rows: list[AuditEntry] = []
        self._keeps = False

    @contextmanager
    def kept(self) -> Generator[None]:
        """Keeps what is written meanwhile."""
        self._keeps = True
        try:
            yield
        finally:
            self._keeps = False

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[Transaction, None]:
        try:
            async with self._store.write() as tx:
                yield tx
                if self._keeps or is_batch_open():
                    return
                self.written += 1
                if isinstance(log := tx[AuditLog], SqlAudit):
                    self.rows += log.pending
                raise _Undo
        except _Undo:
            return


@dataclass
class Stage:
    """A control plane with one project full of things, and callers of every sort."""

    plane: ControlPlane
    store: Undoing
    manifests: FakeManifests
    sessions: FakeProxySessions
    ids: dict[str, str] = field(default_factory=dict)
    callers: dict[str, Actor] = field(default_factory=dict)

    async def ask(self, document: str, actor: Actor) -> tuple[dict[str, Any] | None, str | None]:
        """(data, code of the first error); of a subscription its first event."""
        context = Context(self.plane.api, caller=actor)
        if document.startswith("subscription"):
            result = await self._event(document, context)
        else:
            result = await schema.execute(document, context_value=context)
        code = None
        if result.errors:
            code = str((result.errors[0].extensions or {}).get("code"))
        return result.data, code

    async def _event(self, document: str, context: Context) -> Any:
        """The first event of a subscription: it tells at once, or when its thing has changed."""
        events = await schema.subscribe(document, context_value=context)
        first = asyncio.ensure_future(anext(aiter(events)))
        while not first.done():
            self.plane.context.bus.publish(SECRET, self.ids["secret"])
            await asyncio.wait({first}, timeout=0.02)
        await events.aclose()
        return first.result()

    async def made(self, document: str) -> dict[str, Any]:
        """Objects made by a mutation of the installation itself."""
        data, code = await self.ask(f"mutation {{ {document} }}", SYSTEM)
        assert data is not None and code is None, (document, code)
        (answer,) = data.values()
        return answer


@asynccontextmanager
async def staged(folder: Path) -> AsyncGenerator[Stage, None]:
    """The stage, with its store undoing from now on."""
    original = _original()
    shutil.copytree(original.folder.name, folder, dirs_exist_ok=True)
    async with _opened(folder) as stage:
        stage.ids |= original.ids
        stage.callers |= original.callers
        stage.manifests.push(stage.ids["repository"], {"x": [config_map("x")]})
        stage.plane.operations[ClusterJobs]._logs.append(stage.ids["job"], 0, b"a line")
        for context in (stage.plane.context, stage.plane.foundation.context):
            object.__setattr__(context, "store", stage.store)
        yield stage


@dataclass(frozen=True)
class _Original:
    """The data folder of a stage, and the IDs and callers in it."""

    folder: tempfile.TemporaryDirectory[str]
    ids: Mapping[str, str]
    callers: Mapping[str, Actor]


@cache
def _original() -> _Original:
    """Filled once a run and then copied, since that is quicker; in a thread with a loop."""
    folder = tempfile.TemporaryDirectory(prefix="towline-stage-")
    migrated.put_sqlite(Path(folder.name))

    async def fill() -> _Original:
        async with _opened(Path(folder.name)) as stage:
            await _people(stage)
            await _things(stage)
            await _callers(stage)
            await _audited(stage)
            return _Original(folder, stage.ids, stage.callers)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(fill())).result()


@asynccontextmanager
async def _opened(folder: Path) -> AsyncGenerator[Stage, None]:
    manifests, sessions = FakeManifests(), FakeProxySessions()
    ports = OutsidePorts(manifests, sessions=sessions)
    async with built(ControlPlaneSettings(data_dir=folder), ports, FakeClock()) as plane:
        yield Stage(plane, Undoing(plane.context.store), manifests, sessions)


async def _people(stage: Stage) -> None:
    for name, email in (("other", "other@example.org"), ("asker", "asker@example.org")):
        made = await stage.made(f'upsertUser(attributes: {{email: "{email}"}}) {{ id }}')
        stage.ids[name] = made["id"]
    for name, document in (
        ("account", 'createServiceAccount(attributes: {name: "robot"}) { id }'),
        ("group", 'createGroup(attributes: {name: "team"}) { id }'),
        ("role", 'createRole(attributes: {name: "custom"}) { id }'),
        ("project", 'createProject(attributes: {name: "own", fence: {unrestricted: true}}) { id }'),
        (
            "elsewhere",
            'createProject(attributes: {name: "elsewhere", fence: {unrestricted: true}}) { id }',
        ),
    ):
        stage.ids[name] = (await stage.made(document))["id"]
    await stage.made(f"createGroupMember({filled('createGroupMember', stage)}) {{ id }}")
    rule = filled("createTrustRule", stage).replace('"new"', '"ci"')
    settings = 'attributes: { name: "agents" }'
    made = await stage.made(f"createAgentSettings({settings}) {{ id }}")
    stage.ids["settings"] = made["id"]
    stage.ids["trust"] = (await stage.made(f"createTrustRule({rule}) {{ id }}"))["id"]
    asker = await stage.plane.operations[CredentialAuthenticator].actor_of(stage.ids["other"])
    row, _ = await stage.plane.operations[CredentialAuthenticator].create_token(asker, "of another")
    stage.ids["token"] = row.id


async def _things(stage: Stage) -> None:
    ids = stage.ids
    project = f'projectId: "{ids["project"]}"'
    git = 'createGitRepository(attributes: {{url: "https://git.example.org/{}.git", {}}}) {{ id }}'
    ids["repository"] = (await stage.made(git.format("own", project)))["id"]
    ids["lonely"] = (await stage.made(git.format("lonely", project)))["id"]
    charts = f'attributes: {{url: "oci://charts.example.org/own", {project}}}'
    ids["charts"] = (await stage.made(f"createHelmRepository({charts}) {{ id }}"))["id"]
    artifacts = f'attributes: {{url: "oci://registry.example.org/own", {project}}}'
    ids["artifacts"] = (await stage.made(f"createOciRepository({artifacts}) {{ id }}"))["id"]
    cluster = f'createCluster(attributes: {{name: "own", {project}}}) {{ id }}'
    ids["cluster"] = (await stage.made(cluster))["id"]
    attributes = f'attributes: {{name: "own", {project}}}'
    shared = f'{{name: "own", list: "services", sharing: PROJECT, {project}}}'
    ids["view"] = (await stage.made(f"saveView(attributes: {shared}) {{ id }}"))["id"]
    token = f"createBootstrapToken({attributes}) {{ bootstrapToken {{ id }} }}"
    ids["bootstrap"] = (await stage.made(token))["bootstrapToken"]["id"]
    for name in ("service", "second"):
        document = (
            f'createServiceDeployment(clusterId: "{ids["cluster"]}", attributes: {{name: "{name}",'
            f' namespace: "x", repositoryId: "{ids["repository"]}",'
            ' git: {ref: "main", folder: "x"}}) { id }'
        )
        ids[name] = (await stage.made(document))["id"]
    context = f'saveServiceContext(name: "shared", attributes: {{{project}}}) {{ id }}'
    ids["context"] = (await stage.made(context))["id"]
    ids["waiting"] = await _waiting(stage)
    ids["refused"] = "sha256:ba9876543210"
    await stage.made(f'denyRevision(revision: "{ids["refused"]}", reason: "bad") {{ revision }}')
    await _secrets(stage, project)
    await _flowing(stage)
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
    manifest["spec"] = {"containers": [{"name": "x", "image": "x"}], "restartPolicy": "Never"}
    ids["job_json"] = orjson.dumps(manifest).decode().replace('"', '\\"')
    run = f"runClusterJob({filled('runClusterJob', stage)}) {{ id }}"
    ids["job"] = (await stage.made(run))["id"]
    line = (
        f'savePipeline(name: "line", attributes: {{{project}, stages: ['
        f'{{name: "dev", services: [{{serviceId: "{ids["service"]}"}}]}},'
        f' {{name: "prod", services: [{{serviceId: "{ids["second"]}"}}]}}],'
        ' triggers: [{name: "nightly", type: TAG}],'
        ' edges: [{from: "dev", to: "prod", gates: [{name: "yes", type: APPROVAL}]}]})'
        " { id edges { gates { id } } }"
    )
    made = await stage.made(line)
    ids["pipeline"], ids["gate"] = made["id"], made["edges"][0]["gates"][0]["id"]
    ids["binding"] = (
        await stage.made(f"createRoleBinding({filled('createRoleBinding', stage)}) {{ id }}")
    )["id"]
    await _notifying(stage, project)
    await _defining(stage, project)
    asker = await stage.plane.operations[CredentialAuthenticator].actor_of(ids["other"])
    scope = Scope(f"project:{ids['project']}")
    row = await stage.plane.operations[AccessRequests].create(asker, "editor", scope, 5, "please")
    ids["request"] = row.id
    await _revision(stage)


async def _defining(stage: Stage, project: str) -> None:
    """One definition of each sort with a service of it, a cluster group, and an object."""
    ids = stage.ids
    for name, verb in (("global", "createGlobalService"), ("set", "createServiceSet")):
        arguments = _NEW_GLOBAL.replace('name: "new", p', 'name: "old", p').format(**ids)
        ids[name] = (await stage.made(f"{verb}({arguments}) {{ id }}"))["id"]
    namespace = f'createManagedNamespace(attributes: {{name: "old", {project}}}) {{ id }}'
    ids["namespace"] = (await stage.made(namespace))["id"]
    group = f'attributes: {{name: "old", {project}, clusterIds: ["{ids["cluster"]}"]}}'
    ids["clusters"] = (await stage.made(f"createClusterGroup({group}) {{ id }}"))["id"]
    await _source(stage, project)
    await _cluster_source(stage, project)
    for kind in OwnerKind:
        document = (
            f'createServiceDeployment(clusterId: "{ids["cluster"]}", attributes: {{name:'
            f' "of-{kind.value}", namespace: "x"}}) {{ id }}'
        )
        ids[f"of {kind.value}"] = (await stage.made(document))["id"]
        async with stage.plane.context.store.write() as tx:
            await tx[ServiceStore].change(
                ids[f"of {kind.value}"], owner_kind=kind, owner_id=ids[kind.value]
            )
    now, cluster = stage.plane.context.clock.now(), ClusterId(ids["cluster"])
    async with stage.plane.context.store.write() as tx:
        one = Component(
            "component",
            ServiceId(ids["service"]),
            cluster,
            "",
            "v1",
            "ConfigMap",
            "x",
            "x",
            "uid",
            "",
            None,
            "",
            True,
            (),
            now,
        )
        await tx[ComponentStore].upsert([one])


async def _source(stage: Stage, project: str) -> None:
    """A configuration source with a plan that waits for its approval."""
    ids = stage.ids
    references = f'repositoryId: "{ids["repository"]}", serviceAccountId: "{ids["account"]}"'
    given = f'attributes: {{name: "old", {project}, folder: "old", {references}}}'
    ids["source"] = (await stage.made(f"createConfigurationSource({given}) {{ id }}"))["id"]
    waiting = {"result": SourceResult.AWAITING_APPROVAL, "plan_digest": "planned"}
    async with stage.plane.context.store.write() as tx:
        await tx[ConfigurationSourceStore].change(ids["source"], **waiting)


async def _cluster_source(stage: Stage, project: str) -> None:
    """A source of clusters."""
    ids = stage.ids
    references = f'clusterId: "{ids["cluster"]}", serviceAccountId: "{ids["account"]}"'
    given = f'attributes: {{name: "old", {project}, {references}}}'
    made = await stage.made(f"createClusterSource({given}) {{ id }}")
    ids["clusterSource"] = made["id"]


async def _flowing(stage: Stage) -> None:
    """A service that imports from another one, and a context with a layer, which it is bound to."""
    ids = stage.ids
    for name, attributes in (
        ("second", 'exports: [{name: "x", type: TEXT, value: "\\"1\\""}]'),
        ("service", f'imports: [{{alias: "x", sourceId: "{ids["second"]}", export: "x"}}]'),
    ):
        arguments = f'serviceId: "{ids[name]}", attributes: {{{attributes}}}'
        await stage.made(f"saveServiceFlow({arguments}) {{ serviceId }}")
    layer = f'id: "{ids["context"]}", layer: PROJECT, placeId: "{ids["project"]}"'
    document = f'overrideServiceContext({layer}, configuration: "{{\\"a\\": 1}}") {{ id }}'
    bound = f'contextBindings: [{{contextId: "{ids["context"]}"}}]'
    await stage.made(
        f'updateServiceDeployment(id: "{ids["service"]}", attributes: {{{bound}}}) {{ id }}'
    )
    ids["layer"] = (await stage.made(document))["id"]


async def _secrets(stage: Stage, project: str) -> None:
    """One with two versions that a service uses, and one with a source whose rotation goes on."""
    ids = stage.ids
    for name, attributes in (
        ("own", 'value: "1"'),
        ("own", 'value: "2"'),
        ("idle", 'value: "1"'),
        ("idle", 'value: "2", rotation: {}'),
    ):
        document = f'saveSecret(name: "{name}", attributes: {{{project}, {attributes}}}) {{ id }}'
        made = await stage.made(document)
        ids["secret" if name == "own" else "idle_secret"] = made["id"]
    source = VaultSource("x", "x", "x")
    async with stage.plane.context.store.write() as tx:
        await tx[SecretStore].change(ids["idle_secret"], source=source)
        version = await tx[SecretVersionStore].numbered(ids["secret"], 2)
        assert version is not None
        ids["version"] = version.id
    uses = f'uses: [{{name: "x", secretId: "{ids["secret"]}"}}]'
    await stage.made(f'useSecrets(serviceId: "{ids["service"]}", {uses}) {{ id }}')


async def _waiting(stage: Stage) -> str:
    """A service that waits for another one."""
    document = (
        f'createServiceDeployment(clusterId: "{stage.ids["cluster"]}", attributes: {{name:'
        ' "dependent", namespace: "x", dependencies: [{name: "second"}]}) { id }'
    )
    id = (await stage.made(document))["id"]
    async with stage.plane.context.store.write() as tx:
        await tx[ServiceStore].change(id, waiting=True)
    return id


async def _audited(stage: Stage) -> None:
    """The newest row of the audit trail is one of the project."""
    await stage.made(f"syncGitRepository({filled('syncGitRepository', stage)}) {{ id }}")
    async with stage.plane.context.store.read() as tx:
        page = await tx[AuditLog].search(AuditFilter(), PageQuery(1, newest=True))
    stage.ids["row"] = str(page.items[0].id)


async def _notifying(stage: Stage, project: str) -> None:
    for name in ("sink", "lonely_sink"):
        document = (
            f'upsertNotificationSink(attributes: {{name: "{name}", type: SLACK, {project},'
            ' configuration: {slack: {url: "https://hooks.example.org/x"}}}) { id }'
        )
        stage.ids[name] = (await stage.made(document))["id"]
    document = (
        f'upsertNotificationRouter(attributes: {{name: "r", events: ["*"], {project},'
        f' routerSinks: [{{sinkId: "{stage.ids["sink"]}"}}]}}) {{ id }}'
    )
    stage.ids["router"] = (await stage.made(document))["id"]
    sent = f'testNotificationSink(id: "{stage.ids["sink"]}") {{ id notificationId }}'
    made = await stage.made(sent)
    stage.ids["delivery"], stage.ids["notification"] = made["id"], made["notificationId"]


async def _revision(stage: Stage) -> None:
    now, ids = stage.plane.context.clock.now(), stage.ids
    ids["revision"] = "revision"
    async with stage.plane.context.store.write() as tx:
        service = await tx[ServiceStore].get(ids["service"])
        assert service is not None
        digest = "sha256:0"
        row = Revision(
            "revision", service.id, "a" * 40, "main", "x", digest, "", "a", "s", now, now, "ada"
        )
        await tx[RevisionStore].add(row)


async def _callers(stage: Stage) -> None:
    """Nobody in particular, and each built-in role here, elsewhere and everywhere."""
    users, bindings = stage.plane.operations[Users], stage.plane.operations[RoleBindings]
    places = {
        "here": Scope(f"project:{stage.ids['project']}"),
        "elsewhere": Scope(f"project:{stage.ids['elsewhere']}"),
        "everywhere": INSTALLATION,
    }
    sorts: list[tuple[str, str | None, str]] = [("member", None, "here")]
    sorts += [(f"{role} here", role, "here") for role in BUILT_IN]
    sorts += [("admin elsewhere", "admin", "elsewhere")]
    sorts += [(f"{role} everywhere", role, "everywhere") for role in BUILT_IN]
    for name, role, place in sorts:
        user = await users.upsert(SYSTEM, f"{name.replace(' ', '-')}@example.org")
        assert user.kind is UserKind.PERSON
        if role is not None:
            await bindings.create(SYSTEM, BindingDraft(role, places[place], user=user.id))
        actor = await stage.plane.operations[CredentialAuthenticator].actor_of(user.id)
        row, _ = await stage.plane.operations[CredentialAuthenticator].create_token(actor, "own")
        stage.callers[name] = await stage.plane.operations[CredentialAuthenticator].actor_of(
            user.id, row.id
        )


def filled(name: str, stage: Stage) -> str:
    """The arguments of an operation, with ids of this stage."""
    known = {**dict.fromkeys(("job_json", "job", "gate"), ""), **_UNREAL, **stage.ids}
    return ARGUMENTS[name].format(**known)
