"""An operation on an existing object checks the permission of the caller before their input.

The reason of a refusal must not depend on input that the caller may not give anyway. A malformed
request, which no object can decide, is refused first.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from graphql import OperationType

from controlplane.api.schema import schema
from tests.integration.controlplane.matrix import Stage, staged

LONG = "x" * 70_000
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
}
# It has no field with a wrong value: each subject exists or not.
WITHOUT_INPUT = {"updateRbac"}
REFUSED = ("FORBIDDEN", "NOT_FOUND")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as made:
        yield made


async def code_of(stage: Stage, name: str, caller: str) -> str | None:
    arguments = WRONG[name].format(**stage.ids)
    document = f"mutation {{ {name}({arguments}) {{ __typename }} }}"
    return (await stage.ask(document, stage.callers[caller]))[1]


async def test_the_permission_is_checked_before_the_input(stage: Stage) -> None:
    found = {
        name: [
            await code_of(stage, name, caller)
            for caller in ("admin everywhere", "viewer here", "admin elsewhere", "member")
        ]
        for name in WRONG
    }
    assert {name: codes[0] for name, codes in found.items() if codes[0] != "INVALID"} == {}
    wrong = {name: codes for name, codes in found.items() if not set(codes[1:]) <= set(REFUSED)}
    assert wrong == {}


def test_no_change_of_an_existing_object_is_left_out() -> None:
    root = schema._schema.get_root_type(OperationType.MUTATION)
    assert root is not None
    changes = {name for name in root.fields if name.startswith(("update", "freeze"))}
    assert changes == WRONG.keys() | WITHOUT_INPUT
