"""A mutation checks the permission of the caller before their input.

The reason of a refusal must not depend on input that the caller may not give anyway. A malformed
request, which no object can decide, is refused first.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from graphql import OperationType, get_named_type

from controlplane.api.schema import schema
from tests.integration.controlplane.stage import Stage, staged

# They copy one stage.
pytestmark = pytest.mark.xdist_group("stage")
LONG = "x" * 70_000
_NEW_GENERATOR = (
    'attributes: {{name: "", projectId: "{project}", template: {{name: "new", namespace: "x"}}}}'
)
WRONG = {
    "updateUser": f'id: "{{other}}", attributes: {{{{name: "{LONG}"}}}}',
    "updateServiceAccount": f'id: "{{account}}", attributes: {{{{name: "{LONG}"}}}}',
    "updateTrustRule": 'id: "{trust}", attributes: {{minutes: -1}}',
    "updateGroup": f'groupId: "{{group}}", attributes: {{{{name: "{LONG}"}}}}',
    "updateProject": f'id: "{{project}}", attributes: {{{{name: "{LONG}"}}}}',
    "updateRole": f'id: "{{role}}", attributes: {{{{name: "{LONG}"}}}}',
    "updateAgentSettings": 'id: "{settings}", attributes: {{priority: 5000}}',
    "updateDeploymentSettings": f'attributes: {{{{agentHelmValues: "{LONG}"}}}}',
    "updateGlobalService": 'id: "{global}", attributes: {{name: "", deletionBudget: -1}}',
    "updateServiceSet": 'id: "{set}", attributes: {{deletionBudget: -1}}',
    "updateManagedNamespace": 'id: "{namespace}", attributes: {{deletionBudget: -1}}',
    "updateClusterGroup": 'id: "{clusters}", attributes: {{maxChanging: -1}}',
    "freezeClusterGroup": f'id: "{{clusters}}", reason: "{LONG}"',
    "updateGitRepository": 'id: "{repository}", attributes: {{url: "no url"}}',
    "updateHelmRepository": 'id: "{charts}", attributes: {{url: "no url"}}',
    "updateOciRepository": 'id: "{artifacts}", attributes: {{url: "no url"}}',
    "updateClusterSource": 'id: "{clusterSource}", attributes: {{intervalSeconds: 1}}',
    "updateConfigurationSource": 'id: "{source}", attributes: {{intervalSeconds: 1}}',
    "updateCluster": 'id: "{cluster}", attributes: {{handle: "No Handle"}}',
    "updateServiceDeployment": f'id: "{{service}}", attributes: {{{{version: "{LONG}"}}}}',
    "upsertUser": f'attributes: {{{{email: "other@example.org", name: "{LONG}"}}}}',
    "upsertNotificationSink": 'attributes: {{name: "sink", type: SLACK, '
    'configuration: {{slack: {{url: "no url"}}}}}}',
    "upsertNotificationRouter": 'attributes: {{name: "r", events: [""], routerSinks: []}}',
    "saveServiceContext": 'name: "shared", attributes: {{types: "{{\\"a\\": \\"none\\"}}"}}',
    "saveSecret": 'name: "own", attributes: {{refreshSeconds: -1, value: "x"}}',
    "useSecrets": 'serviceId: "{service}", uses: [{{name: "", secretId: "{secret}"}}]',
    "saveServiceFlow": 'serviceId: "{service}", attributes: '
    '{{exports: [{{name: "", type: TEXT, value: "1"}}]}}',
    "saveView": f'id: "{{view}}", attributes: {{{{name: "{LONG}"}}}}',
    "savePipeline": 'name: "line", attributes: {{stages: [{{name: ""}}]}}',
    "approveGate": f'id: "{{gate}}", comment: "{LONG}"',
    "skipGate": f'id: "{{gate}}", releaseId: "r1", reason: "{LONG}"',
    "denyRevision": 'revision: "x", projectId: "{project}", reason: "x"',
    "overrideGlobalService": 'id: "{global}", clusterId: "{cluster}", '
    f'attributes: {{{{version: "{LONG}"}}}}',
    "syncGlobalService": 'id: "{global}", confirm: -1',
    "syncServiceSet": 'id: "{set}", confirm: -1',
    "syncManagedNamespace": 'id: "{namespace}", confirm: -1',
    "confirmDeletions": 'serviceId: "{service}", objects: []',
    "syncServiceObjects": 'serviceId: "{service}", objects: []',
    "upgradeAgent": 'clusterId: "{cluster}", version: "", image: ""',
    "upgradeAgents": 'groupId: "{clusters}", version: "", image: ""',
    "deliverFreezeStatement": 'clusterId: "{cluster}", statement: "x"',
    "runClusterJob": 'clusterId: "{cluster}", attributes: {{namespace: "x", manifest: "{{}}"}}',
    "cloneService": 'serviceId: "{service}", clusterId: "{cluster}", '
    'attributes: {{name: "No Name"}}',
    "createServiceAccount": 'attributes: {{name: ""}}',
    "createServiceAccountToken": 'id: "{account}", attributes: {{name: ""}}',
    "createTrustRule": 'attributes: {{name: ""}}',
    "createGroup": 'attributes: {{name: ""}}',
    "createProject": 'attributes: {{name: ""}}',
    "createRole": 'attributes: {{name: ""}}',
    "createRoleBinding": 'attributes: {{role: "viewer", scope: "project:{project}", '
    'user: "{other}", expiresAt: "2020-01-01T00:00:00Z"}}',
    "createAgentSettings": 'attributes: {{name: ""}}',
    "createGlobalService": _NEW_GENERATOR,
    "createServiceSet": _NEW_GENERATOR,
    "createManagedNamespace": 'attributes: {{name: "", projectId: "{project}"}}',
    "createClusterGroup": 'attributes: {{name: "", projectId: "{project}"}}',
    "createGitRepository": 'attributes: {{url: "no url", projectId: "{project}"}}',
    "createHelmRepository": 'attributes: {{url: "no url", projectId: "{project}"}}',
    "createOciRepository": 'attributes: {{url: "no url", projectId: "{project}"}}',
    "createClusterSource": 'attributes: {{name: "", projectId: "{project}", '
    'clusterId: "{cluster}", serviceAccountId: "{account}"}}',
    "createConfigurationSource": 'attributes: {{name: "", projectId: "{project}", '
    'repositoryId: "{repository}", folder: "new", serviceAccountId: "{account}"}}',
    "createBootstrapToken": 'attributes: {{name: "", projectId: "{project}"}}',
    "createCluster": 'attributes: {{name: "", projectId: "{project}"}}',
    "createServiceDeployment": 'clusterId: "{cluster}", '
    'attributes: {{name: "No Name", namespace: "x"}}',
}
# Their only input names something of the object, which exists or not.
ABSENT = {
    "overrideServiceContext": 'id: "{context}", layer: CLUSTER, placeId: "none", '
    'configuration: "{{\\"a\\": 1}}"',
    "revokeSecretVersion": 'id: "{secret}", number: -1',
    "decideSecretRotation": 'id: "{secret}", decision: ABORT',
    "allowRevision": 'revision: "x", projectId: "{project}"',
    "startRelease": 'id: "{pipeline}", reason: "x"',
    "answerGate": 'id: "{gate}", releaseId: "none", passed: true',
    "rejectGate": 'id: "{gate}", comment: "x"',
    "retryPipeline": 'id: "{pipeline}", stage: "none"',
    "checkTrigger": 'id: "{pipeline}", trigger: "none"',
    "abortRollout": 'id: "{pipeline}", stage: "none", reason: "x"',
    "acknowledgeRollback": 'id: "{pipeline}", stage: "none"',
    "approveConfigurationSource": 'id: "{source}", digest: "none"',
}
# Each subject of the one exists or not, and the other takes any reason.
WITHOUT_INPUT = {"updateRbac", "pausePipeline"}
# Every user may do the first two, and the others decide about many objects.
OPEN = {"requestAccess", "createAccessToken", "applyManifests", "deleteManifests"}
# Names are unique in the installation: others only learn that one is used.
BY_NAME = {"savePipeline", "upsertNotificationSink", "upsertNotificationRouter"}
NO_INPUT = {"ID", "Boolean", "DateTime"}
CALLERS = ("admin everywhere", "viewer here", "admin elsewhere", "member")
REFUSED = {"FORBIDDEN", "NOT_FOUND"}


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as made:
        yield made


async def codes_of(stage: Stage, name: str, arguments: str) -> list[str | None]:
    """The code for each of the callers."""
    document = f"mutation {{ {name}({arguments.format(**stage.ids)}) {{ __typename }} }}"
    return [(await stage.ask(document, stage.callers[caller]))[1] for caller in CALLERS]


async def test_the_permission_is_checked_before_the_input(stage: Stage) -> None:
    found = {name: await codes_of(stage, name, arguments) for name, arguments in WRONG.items()}
    assert {name: codes[0] for name, codes in found.items() if codes[0] != "INVALID"} == {}
    wrong = {
        name: codes
        for name, codes in found.items()
        if not set(codes[1:]) <= (REFUSED | {"CONFLICT"} if name in BY_NAME else REFUSED)
    }
    assert wrong == {}


async def test_the_permission_is_checked_before_what_the_input_names(stage: Stage) -> None:
    found = {name: await codes_of(stage, name, arguments) for name, arguments in ABSENT.items()}
    unexpected = {
        name: codes
        for name, codes in found.items()
        if codes[0] not in {"NOT_FOUND", "CONFLICT"}
        or codes[1] != "FORBIDDEN"
        or not set(codes[2:]) <= REFUSED
    }
    assert unexpected == {}


def test_no_mutation_with_input_is_left_out() -> None:
    root = schema._schema.get_root_type(OperationType.MUTATION)
    assert root is not None
    changes = {
        name
        for name, field in root.fields.items()
        if {get_named_type(argument.type).name for argument in field.args.values()} - NO_INPUT
    }
    assert changes - OPEN == WRONG.keys() | ABSENT.keys() | WITHOUT_INPUT
