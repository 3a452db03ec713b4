"""Rules of the roles in the agent's chart."""

from pathlib import Path

import pytest

from controlplane.authorization import BUILT_IN
from controlplane.authorization.actor import EVERYBODY
from core.runtime.clock import SystemClock
from core.spec.fences import ServiceFence
from core.spec.statements.attestation import read_public_keys
from core.spec.statements.freeze import FreezeKeys
from syncagent.autonomy.tenants import parse_tenants
from syncagent.settings import from_environment
from syncagent.tunnel.proof import UNPROVEN
from tests.unit.charts.rendering import Json, of_kind, pod_of, render, values_of
from towline.agent_identity import open_proofs

AGENT = "towline-agent"


def rules_of(objects: list[Json], part: str) -> list[Json]:
    """The rules of one of the agent's roles."""
    return of_kind(objects, "ClusterRole", f"-{part}")["rules"]


def test_the_groups_are_those_of_the_control_plane() -> None:
    """Whatever group a person comes with, the agent may speak as."""
    sent = {EVERYBODY, *(group for role in BUILT_IN.values() for group in role.kubernetes.groups)}
    (groups,) = [
        rule
        for rule in rules_of(render(AGENT, values_of(AGENT, "default")), "impersonate")
        if rule["resources"] == ["groups"]
    ]
    assert set(groups["resourceNames"]) == sent


@pytest.mark.parametrize("part", ["apply", "read"])
def test_impersonation_is_not_in_the_other_roles(part: str) -> None:
    """No verb of theirs is, or includes, impersonate."""
    verbs = {
        verb
        for rule in rules_of(render(AGENT, values_of(AGENT, "default")), part)
        for verb in rule["verbs"]
    }
    assert not verbs & {"*", "impersonate"}


def test_values_narrow_the_roles() -> None:
    """Rules given replace the default ones; names given are the only ones."""
    objects = render(AGENT, values_of(AGENT, "narrow"))
    assert [rule["resources"] for rule in rules_of(objects, "apply")] == [["configmaps"]]
    names = {
        rule["resources"][0]: rule["resourceNames"] for rule in rules_of(objects, "impersonate")
    }
    assert names == {
        "users": ["ada@example.org", "grace@example.org"],
        "uids": ["019a0000-0000-7000-8000-00000000ada0"],
        "groups": ["towline:viewers"],
    }


def test_an_agent_with_tenants_acts_as_their_accounts_and_writes_only_events() -> None:
    """The file that it reads names the same accounts."""
    tenants = {
        "shop": {"namespaces": ["shop-*"], "serviceAccount": "shop-deployer"},
        "infra": {"namespaces": ["*"], "serviceAccount": "infra:deployer", "denied": ["Secret"]},
    }
    values = values_of(AGENT, "default") | {"autonomy": {"tenants": tenants}}
    objects = render(AGENT, values)
    roles = {one["metadata"]["name"] for one in objects if one["kind"] == "ClusterRole"}
    assert not [name for name in roles if name.endswith("-apply")]
    written = [rule for rule in rules_of(objects, "tenants") if rule["verbs"] != ["impersonate"]]
    assert [rule["resources"] for rule in written] == [["events"]]
    (acting,) = [rule for rule in rules_of(objects, "tenants") if rule not in written]
    assert acting["resourceNames"] == ["deployer", "shop-deployer"]
    policy = parse_tenants(
        of_kind(objects, "ConfigMap", "-tenants")["data"]["tenants.yaml"].encode()
    )
    narrowed = policy.narrowed(ServiceFence("shop"), "shop-1")
    assert narrowed is not None and narrowed.service_account == "shop-1:shop-deployer"
    assert policy.tenants["infra"].rules.denied == ("Secret",)
    people = [rule for rule in rules_of(objects, "impersonate") if rule["resources"] == ["groups"]]
    assert people[0]["resourceNames"][4:] == [
        f"towline:{tenant}:{role}"
        for tenant in ("infra", "shop")
        for role in ("viewers", "editors", "admins")
    ]


def test_null_takes_a_binding_out() -> None:
    """Only the group that is left is bound."""
    bound = {
        one["subjects"][0]["name"]: one["roleRef"]["name"]
        for one in render(AGENT, values_of(AGENT, "narrow"))
        if one["kind"] == "ClusterRoleBinding" and one["subjects"][0]["kind"] == "Group"
    }
    assert bound == {"towline:viewers": "view"}


def test_system_names_are_permitted_by_both_the_role_and_the_agent() -> None:
    """The role takes groups by name; users are all in it, so the agent's setting limits them."""
    system = {"users": ["system:node:*"], "groups": ["system:nodes", "system:masters"]}
    objects = render(AGENT, values_of(AGENT, "default") | {"impersonation": {"system": system}})
    rules = of_kind(objects, "ClusterRole", "-impersonate")["rules"]
    (groups,) = [rule["resourceNames"] for rule in rules if rule["resources"] == ["groups"]]
    assert groups[-2:] == ["system:nodes", "system:masters"] and "towline:users" in groups
    variables = {one["name"]: one.get("value") for one in pod_of(objects)["containers"][0]["env"]}
    assert variables["TOWLINE_AGENT_KUBERNETES_SYSTEM_IDENTITIES"] == (
        "user:system:node:*,group:system:nodes,group:system:masters"
    )


def test_people_can_be_left_out() -> None:
    """Without impersonation and bindings only the agent's own rights remain."""
    objects = render(AGENT, values_of(AGENT, "everything"))
    roles = {one["metadata"]["name"] for one in objects if one["kind"] == "ClusterRole"}
    assert roles == {"cluster-agent-read", "cluster-agent-apply"}
    bindings = [one for one in objects if one["kind"] == "ClusterRoleBinding"]
    assert {one["subjects"][0]["kind"] for one in bindings} == {"ServiceAccount"}


def test_an_account_of_its_own_speaks_for_people() -> None:
    """It alone may impersonate; the agent's may ask for its token, for no other."""
    objects = render(AGENT, values_of(AGENT, "default") | {"impersonation": {"ownAccount": True}})
    bound = of_kind(objects, "ClusterRoleBinding", "-impersonate")["subjects"]
    account = of_kind(objects, "ServiceAccount", "-people")["metadata"]
    assert [(one["name"], one["namespace"]) for one in bound] == [
        (account["name"], account["namespace"])
    ]
    assert of_kind(objects, "Role", "-people")["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["serviceaccounts/token"],
            "resourceNames": [account["name"]],
            "verbs": ["create"],
        }
    ]
    agent = pod_of(objects)
    assert (
        of_kind(objects, "RoleBinding", "-people")["subjects"][0]["name"]
        == (agent["serviceAccountName"])
    )
    variables = {one["name"]: one.get("value") for one in agent["containers"][0]["env"]}
    named = f"{account['namespace']}:{account['name']}"
    assert variables["TOWLINE_AGENT_KUBERNETES_IMPERSONATOR"] == named


def test_proofs_add_the_group_of_unproven_users_and_its_role() -> None:
    """The agent drops groups that its role does not list, so that a token never costs access."""
    objects = render(AGENT, values_of(AGENT, "proof"))
    rules = of_kind(objects, "ClusterRole", "-impersonate")["rules"]
    (groups,) = [rule["resourceNames"] for rule in rules if rule["resources"] == ["groups"]]
    assert groups == ["oidc:platform", "oidc:shop", UNPROVEN]
    bound = {
        one["subjects"][0]["name"]: one["roleRef"]["name"]
        for one in objects
        if one["kind"] == "ClusterRoleBinding" and one["subjects"][0]["kind"] == "Group"
    }
    assert bound == {"oidc:platform": "cluster-admin", UNPROVEN: "view"}
    without = render(AGENT, values_of(AGENT, "default"))
    assert UNPROVEN not in str(without)


async def test_the_agent_reads_the_settings_of_proofs_from_the_chart(tmp_path: Path) -> None:
    objects = render(AGENT, values_of(AGENT, "proof"))
    variables = {
        one["name"]: one["value"]
        for one in pod_of(objects)["containers"][0]["env"]
        if one["name"].startswith("TOWLINE_AGENT_IDENTITY_")
    }
    pinned = of_kind(objects, "ConfigMap", "-identity")["data"]
    keys = tmp_path / "keys.json"
    keys.write_text(pinned["identity-keys.json"])
    assert variables["TOWLINE_AGENT_IDENTITY_KEYS"] == "/etc/towline/identity-keys.json"
    variables["TOWLINE_AGENT_IDENTITY_KEYS"] = str(keys)
    hub = {"TOWLINE_AGENT_HUB_ADDRESS": "https://hub:1", "TOWLINE_AGENT_HUB_TOKEN": "twa_x"}
    settings = from_environment(variables | hub).identity
    assert (settings.issuer, settings.audience) == ("https://id.example.org", "eu-1")
    assert (settings.groups, settings.max_age_minutes) == ("oidc:platform,oidc:shop", 30)
    assert settings.ca_file is not None and settings.ca_file.name in pinned
    async with open_proofs(settings, SystemClock()) as proofs:
        assert proofs.cached_block(b"") is None


def test_the_agent_reads_freeze_statements_whatever_else_it_may_read() -> None:
    objects = render(AGENT, values_of(AGENT, "proof"))
    (rule,) = of_kind(objects, "Role", "-freeze")["rules"]
    assert (rule["resourceNames"], rule["verbs"]) == (["towline-freeze"], ["get"])
    variables = {one["name"]: one.get("value") for one in pod_of(objects)["containers"][0]["env"]}
    assert variables["TOWLINE_AGENT_FREEZE_CONFIGMAP"] == "towline/towline-freeze"
    assert variables["TOWLINE_AGENT_FREEZE_CLUSTER"] == "eu-1"
    pinned = of_kind(objects, "ConfigMap", "-freeze-keys")["data"]["freeze-keys.pem"]
    assert FreezeKeys(read_public_keys(pinned.encode()))
    assert "freeze" not in str(render(AGENT, values_of(AGENT, "default")))
