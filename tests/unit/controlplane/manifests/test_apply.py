"""Applies of manifests: all or nothing, owners of fields, and sets."""

from dataclasses import replace
from typing import Any

import pytest
import yaml

from controlplane.access.ports import ProjectStore, UserStore
from controlplane.authorization import (
    DEFAULT_PROJECT,
    Grant,
    Policy,
    ResourceKind,
    Role,
    Rule,
    Scope,
    Verb,
)
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.agent_settings import AgentSize, AgentSpec
from controlplane.clusters.operations.clusters import ClusterChange, Clusters
from controlplane.clusters.ports import AgentSettingsStore, ClusterStore
from controlplane.manifests.model.documents import MAX_DEPTH
from controlplane.manifests.model.plan import ManifestAction, ManifestPlan
from controlplane.manifests.ports import DeclaredResourceStore
from controlplane.platform.batch import open_batch
from controlplane.platform.context import CLUSTER
from controlplane.platform.ports import TransactionConflict
from controlplane.platform.retry import retry_operations
from controlplane.services.model.ledger import LedgerStage
from core.errors import Forbidden, NotFound
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.manifest_world import ManifestWorld, document, manifest_world
from tests.fakes.operations import operations_over_memory

REPOSITORY = "https://git.example.org/fleet.git"


def cluster(name: str, **spec: object) -> str:
    return document("Cluster", name, spec)


def service(name: str, **spec: object) -> str:
    given = {"namespace": "shop", "repository": REPOSITORY, "folder": name, **spec}
    return document("Service", name, given, cluster="eu-1")


def actions(plan: ManifestPlan) -> list[tuple[str, str, str]]:
    return [(item.action.value, item.kind, item.name) for item in plan.items]


async def handles(world: ManifestWorld) -> list[str]:
    return sorted(row.handle for row in await world.memory.rows(ClusterStore))


@pytest.fixture
def world() -> ManifestWorld:
    return manifest_world()


async def test_resources_are_created_in_the_order_of_their_references(world: ManifestWorld) -> None:
    text = service("web", dependencies=["database"]) + service("database") + cluster("eu-1")
    plan = await world.apply(text + document("GitRepository", REPOSITORY))
    assert plan.problems == ()
    assert plan.applied
    names = [item.name for item in plan.items]
    assert names.index("eu-1") < names.index("eu-1/database") < names.index("eu-1/web")


async def test_a_second_apply_writes_and_publishes_nothing(world: ManifestWorld) -> None:
    text = cluster("eu-1", tags={"env": "prod"}) + document("GitRepository", REPOSITORY)
    await world.apply(text)
    audited, published = await world.memory.audited(), list(world.memory.published)
    plan = await world.apply(text)
    assert {item.action for item in plan.items} == {ManifestAction.UNCHANGED}
    assert await world.memory.audited() == audited
    assert world.memory.published == published


async def test_kinds_with_one_name_keep_their_own_state(world: ManifestWorld) -> None:
    """After a change of one of them, the next apply of both writes nothing."""
    group = document("ClusterGroup", "shop", {"description": "of the shop"})
    for description in ("old", "new"):
        both = document("Project", "shop", {"description": description}) + group
        await world.apply(both)
    before = await world.memory.rows(DeclaredResourceStore)
    await world.apply(both)
    assert await world.memory.rows(DeclaredResourceStore) == before


async def test_a_plan_shows_each_field_and_changes_nothing(world: ManifestWorld) -> None:
    await world.apply(cluster("eu-1", tags={"env": "test", "team": "shop"}))
    plan = await world.apply(cluster("eu-1", tags={"env": "prod", "team": "shop"}), dry_run=True)
    (item,) = plan.items
    assert not plan.applied
    shown = [(change.path, change.before, change.after) for change in item.changes]
    assert shown == [("spec.tags.env", '"test"', '"prod"')]
    (row,) = await world.memory.rows(ClusterStore)
    assert row.tags["env"] == "test"


async def test_a_first_and_a_last_entry_are_one_difference(world: ManifestWorld) -> None:
    await world.apply(cluster("eu-1"))
    for tags, before, after in (({"env": "prod"}, None, '"prod"'), ({}, '"prod"', None)):
        (item,) = (await world.apply(cluster("eu-1", tags=tags))).items
        shown = [(change.path, change.before, change.after) for change in item.changes]
        assert shown == [("spec.tags.env", before, after)]


async def test_all_problems_are_listed_at_once_with_file_and_line(world: ManifestWorld) -> None:
    text = (
        cluster("eu-1", tagz={"env": "prod"})
        + cluster("eu-2", protect="yes")
        + document("Clusterr", "eu-3")
        + cluster("eu-4")
        + cluster("eu-4")
        + document("Service", "web", {"namespace": "shop", "repository": REPOSITORY}, cluster="x")
    )
    plan = await world.apply(text, dry_run=True)
    found = [(problem.line, problem.field, problem.message) for problem in plan.problems]
    lines = text.splitlines()
    assert "did you mean tags?" in found[0][2]
    assert lines[found[0][0] - 1].strip() == "tagz:"
    assert ("spec.protect", "must be true or false") in [(field, text) for _, field, text in found]
    assert any("unknown kind 'Clusterr'; did you mean Cluster?" in text for _, _, text in found)
    assert any("stands in fleet.yaml" in text for _, _, text in found)
    assert any("Cluster 'x' does not exist" in text for _, _, text in found)
    assert any(f"Repository '{REPOSITORY}' does not exist" in text for _, _, text in found)
    assert all(problem.file == "fleet.yaml" and problem.line for problem in plan.problems)


async def test_loops_of_references_are_refused(world: ManifestWorld) -> None:
    text = service("a", dependencies=["b"]) + service("b", dependencies=["a"])
    plan = await world.apply(text + cluster("eu-1") + document("GitRepository", REPOSITORY))
    assert any("references form a loop" in problem.message for problem in plan.problems)
    assert await handles(world) == []


async def test_all_loops_and_the_problems_beside_them_are_listed(world: ManifestWorld) -> None:
    text = (
        service("a", dependencies=["b"]) + service("b", dependencies=["a"])
        + service("c", dependencies=["d"]) + service("d", dependencies=["e"])
        + service("e", dependencies=["c", "c2"]) + service("c2", dependencies=["d"])
        + service("self", dependencies=["self"])
        + service("on-loop", dependencies=["a"]) + service("none", dependencies=["missing"])
        + document("Role", "deployer", {"rules": []}) + cluster("eu-1")
        + document("GitRepository", REPOSITORY)
    )  # fmt: skip
    plan = await world.apply(text, EDITOR)
    loops = [problem.message for problem in plan.problems if "loop" in problem.message]
    assert sorted(loop.removeprefix("references form a loop: ") for loop in loops) == [
        "Service eu-1/b → Service eu-1/a → Service eu-1/b",
        "Service eu-1/c2 → Service eu-1/d → Service eu-1/e → Service eu-1/c2",
        "Service eu-1/e → Service eu-1/c → Service eu-1/d → Service eu-1/e",
        "Service eu-1/self → Service eu-1/self",
    ]
    others = [problem for problem in plan.problems if "loop" not in problem.message]
    assert [(problem.document, problem.code) for problem in others] == [
        ("Service eu-1/none", "NOT_FOUND"),
        ("Role deployer", "FORBIDDEN"),
    ]
    assert {item.name for item in plan.items} == {"eu-1", REPOSITORY}
    assert not plan.applied and await handles(world) == []


async def test_at_most_a_hundred_loops_are_listed(world: ManifestWorld) -> None:
    names = [f"s{number}" for number in range(101)]
    text = "".join(service(name, dependencies=[name]) for name in names)
    plan = await world.apply(text + cluster("eu-1") + document("GitRepository", REPOSITORY))
    assert len(plan.problems) == 101
    assert plan.problems[-1].message == "references form 101 loops: the first 100 are listed"
    assert {item.name for item in plan.items} == {"eu-1", REPOSITORY}


async def test_a_batch_with_a_forbidden_half_does_nothing(world: ManifestWorld) -> None:
    text = cluster("eu-1") + document("Role", "deployer", {"rules": []}) + cluster("eu-2")
    plan = await world.apply(text, actor=EDITOR)
    (problem,) = plan.problems
    assert (problem.document, problem.code) == ("Role deployer", "FORBIDDEN")
    assert not plan.applied
    assert await handles(world) == []
    assert await world.memory.audited() == []
    assert world.memory.published == []


async def test_all_refusals_of_operations_are_listed(world: ManifestWorld) -> None:
    text = cluster("eu-1") + document("ClusterGroup", "prod")
    plan = await world.apply(text, actor=VIEWER, dry_run=True)
    assert [problem.code for problem in plan.problems] == ["FORBIDDEN", "FORBIDDEN"]


async def test_a_refusal_names_the_resource_or_its_place(world: ManifestWorld) -> None:
    """For the audit log, which finds the project by this ID."""
    in_shop = document("Cluster", "eu-1", project="shop")
    text = document("Project", "shop") + in_shop + cluster("eu-2")
    await world.apply(text + document("GitRepository", REPOSITORY))
    ids = {row.handle: row.id for row in await world.memory.rows(ClusterStore)}
    (shop,) = [row.id for row in await world.memory.rows(ProjectStore) if row.name == "shop"]
    refused = (
        cluster("eu-1", protect=True) + service("web") + cluster("eu-3")
        + in_shop.replace("eu-1", "eu-4") + document("Role", "deployer", {"rules": []})
    )  # fmt: skip
    plan = await world.apply(refused, VIEWER)
    assert {problem.document: problem.target_id for problem in plan.problems} == {
        "Cluster eu-1": ids["eu-1"],
        "Service eu-1/web": ids["eu-1"],
        "Cluster eu-3": DEFAULT_PROJECT,
        "Cluster eu-4": shop,
        "Role deployer": "",
    }
    deleted = await world.manifests.delete(VIEWER, [world.source(cluster("eu-2"))])
    assert [problem.target_id for problem in deleted.problems] == [ids["eu-2"]]


async def test_a_field_of_another_manager_is_a_conflict_until_forced(world: ManifestWorld) -> None:
    await world.apply(cluster("eu-1", tags={"env": "prod"}), manager="git")
    other = cluster("eu-1", tags={"env": "test"})
    plan = await world.apply(other, manager="cli")
    (item,) = plan.items
    assert [(conflict.path, conflict.owner) for conflict in item.conflicts] == [
        ("spec.tags.env", "git")
    ]
    assert "was set by git" in plan.problems[0].message
    assert (await world.apply(other, manager="cli", force=True)).applied
    back = await world.apply(cluster("eu-1", tags={"env": "prod"}), manager="git")
    assert "was set by cli" in back.problems[0].message


async def test_managers_of_different_fields_share_a_resource(world: ManifestWorld) -> None:
    await world.apply(cluster("eu-1", tags={"env": "prod"}), manager="git")
    plan = await world.apply(cluster("eu-1", tags={"team": "shop"}), manager="cli")
    assert plan.applied
    (row,) = await world.memory.rows(ClusterStore)
    assert row.tags == {"env": "prod", "team": "shop"}


async def test_a_dropped_field_gets_its_default_unless_another_manager_set_it(
    world: ManifestWorld,
) -> None:
    both = cluster("eu-1", protect=True, tags={"env": "prod", "team": "shop"})
    await world.apply(both, manager="git")
    await world.apply(cluster("eu-1", protect=True), manager="cli")
    await world.apply(cluster("eu-1", tags={"env": "prod"}), manager="git")
    (row,) = await world.memory.rows(ClusterStore)
    assert (row.protect, row.tags) == (True, {"env": "prod"})


async def test_a_role_binding_loses_its_expiry_and_moves(world: ManifestWorld) -> None:
    """Fields without a default are absent again."""
    spec = {"role": "viewer", "subject": {"user": "ci@example.org"}}
    before = spec | {"expiresAt": "2030-01-31T09:30:00+02:00", "scope": {"cluster": "dev"}}
    accounts = document("ServiceAccount", "ci@example.org") + document("Group", "devs")
    first = accounts + document("Cluster", "dev") + document("RoleBinding", "temporary", before)
    assert (await world.apply(first)).problems == ()
    assert "expiresAt: '2030-01-31T07:30:00Z'" in await world.export("RoleBinding")
    moved = spec | {"subject": {"group": "devs"}}
    plan = await world.apply(document("RoleBinding", "temporary", moved))
    assert plan.problems == ()
    (effect,) = plan.items
    assert sorted(change.path for change in effect.changes) == [
        "spec.expiresAt",
        "spec.scope.cluster",
        "spec.subject.group",
        "spec.subject.user",
    ]
    exported = await world.manifests.document(ADMIN, "RoleBinding", "temporary")
    assert exported["spec"] == moved | {"scope": {}, "reason": "", "clusterTags": ""}
    again = await world.apply(document("RoleBinding", "temporary", moved))
    assert [item.action for item in again.items] == [ManifestAction.UNCHANGED]


@pytest.mark.parametrize(
    ("changed", "message", "path"),
    [
        ({"expireAt": "2030-01-31T09:30:00Z"}, "did you mean expiresAt?", "spec.expireAt"),
        ({"expiresAt": "2030-01-31T09:30:00"}, "needs a time zone", "spec.expiresAt"),
        ({"expiresAt": "tomorrow"}, "must be a date or time", "spec.expiresAt"),
        ({"expiresAt": "0001-01-01T00:00:00+14:00"}, "must be a date or time", "spec.expiresAt"),
        ({"role": "owner"}, "Role 'owner' does not exist", ""),
        ({"subject": {}}, "specify either a user or a group", ""),
        ({"scope": {"cluster": "dev", "project": "default"}}, "names several resources", ""),
    ],
)
async def test_a_wrong_role_binding_is_refused(
    world: ManifestWorld, changed: dict[str, Any], message: str, path: str
) -> None:
    await world.apply(document("ServiceAccount", "ci@example.org") + document("Cluster", "dev"))
    spec = {"role": "viewer", "subject": {"user": "ci@example.org"}} | changed
    (problem,) = (await world.apply(document("RoleBinding", "x", spec))).problems
    assert message in problem.message
    assert path in ("", problem.field)


async def test_an_administrator_of_a_project_declares_its_bindings(world: ManifestWorld) -> None:
    """Every member can name roles, as in the API."""
    await world.apply(
        document("ServiceAccount", "ci@example.org")
        + document("Project", "shop")
        + document("Role", "watcher")
    )
    (project,) = await world.memory.rows(ProjectStore, name="shop")
    sue = person(BuiltInRole.ADMIN, "sue", project.target.scope)
    reader = Grant(Role("r", "r", rules=(Rule((Verb.READ,), (ResourceKind.USER,)),)))
    sue = replace(sue, policy=Policy((*sue.policy.grants, reader)))
    for role in ("viewer", "watcher"):
        spec = {"role": role, "subject": {"user": "ci@example.org"}, "scope": {"project": "shop"}}
        assert (await world.apply(document("RoleBinding", role, spec), sue)).problems == ()
    everywhere = {"role": "viewer", "subject": {"user": "ci@example.org"}}
    (problem,) = (await world.apply(document("RoleBinding", "all", everywhere), sue)).problems
    assert problem.code == "FORBIDDEN"


async def test_a_change_by_the_api_is_reverted_by_the_next_apply(world: ManifestWorld) -> None:
    text = cluster("eu-1", tags={"env": "prod"})
    await world.apply(text)
    (row,) = await world.memory.rows(ClusterStore)
    async with world.memory.store.write() as tx:
        await tx[ClusterStore].change(row.id, tags={"env": "test"})
    plan = await world.apply(text)
    assert actions(plan) == [("UPDATE", "Cluster", "eu-1")]
    (row,) = await world.memory.rows(ClusterStore)
    assert row.tags == {"env": "prod"}


async def test_what_leaves_a_set_is_deleted_within_the_budget(world: ManifestWorld) -> None:
    groups = [document("ClusterGroup", name) for name in ("a", "b", "c")]
    await world.apply("".join(groups), prune_set="groups")
    plan = await world.apply(groups[0], prune_set="groups", max_deletions=1)
    assert "would lose 2 resources, but at most 1 deletions" in plan.problems[0].message
    assert not plan.applied
    plan = await world.apply(groups[0], prune_set="groups", max_deletions=2)
    assert sorted(actions(plan)) == [
        ("DELETE", "ClusterGroup", "b"),
        ("DELETE", "ClusterGroup", "c"),
        ("UNCHANGED", "ClusterGroup", "a"),
    ]
    assert [row.id for row in await world.memory.rows(DeclaredResourceStore)] != []


@pytest.mark.parametrize("dry_run", [True, False])
async def test_missing_references_and_forbidden_documents_are_listed_at_once(
    world: ManifestWorld, dry_run: bool
) -> None:
    text = document("Role", "deployer", {"rules": []}) + cluster("eu-1") + service("web")
    plan = await world.apply(text, EDITOR, dry_run=dry_run)
    assert [(problem.document, problem.code) for problem in plan.problems] == [
        ("Service eu-1/web", "NOT_FOUND"),
        ("Role deployer", "FORBIDDEN"),
    ]
    assert not plan.applied and await handles(world) == []
    assert await world.memory.audited() == [] and world.memory.published == []


@pytest.mark.parametrize(
    ("kinds", "name"),
    [
        (("GitRepository", "HelmRepository"), "https://charts.example.org/a"),
        (("User", "ServiceAccount"), "x@example.org"),
    ],
)
async def test_kinds_of_one_family_cannot_share_a_name(
    world: ManifestWorld, kinds: tuple[str, str], name: str
) -> None:
    first, second = (document(kind, name) for kind in kinds)
    plan = await world.apply(first + second)
    (problem,) = plan.problems
    assert (problem.document, problem.line) == (f"{kinds[1]} {name}", first.count("\n") + 2)
    assert problem.message == (
        f"{kinds[0]} {name} stands in fleet.yaml:2 already, and a {kinds[1]} cannot have the same "
        "name"
    )
    assert not plan.applied


async def test_all_problems_of_the_frame_of_a_document_are_listed(world: ManifestWorld) -> None:
    text = document("Clustr", "a", namespace="x") + document("Cluster", "b", {"tagz": {}}, lables=1)
    text += document("Service", "web", {"folderr": "x"}, cluster=5)
    nameless = "---\n{apiVersion: towline.io/v1, kind: Clustr, metadata: [], spec: [x]}\n"
    plan = await world.apply(text + nameless + document("ClusterGroup", "g", {"clusters": ["b"]}))
    assert sorted((problem.field, problem.message) for problem in plan.problems) == [
        ("kind", "unknown kind 'Clustr'; did you mean Cluster?"),
        ("kind", "unknown kind 'Clustr'; did you mean Cluster?"),
        ("metadata", "must be an object with a name"),
        ("metadata.cluster", "must be text; quote it"),
        ("metadata.lables", "unknown field 'lables'; did you mean labels?"),
        ("metadata.namespace", "unknown field 'namespace'; did you mean name?"),
        ("spec", "must be an object"),
        ("spec.folderr", "unknown field 'folderr'; did you mean folder?"),
        ("spec.tagz", "unknown field 'tagz'; did you mean tags?"),
    ]


@pytest.mark.parametrize("options", [{"dry_run": True}, {"max_deletions": 9}, {}])
async def test_a_set_with_resources_of_others_is_not_pruned_and_names_none(
    world: ManifestWorld, options: dict[str, Any]
) -> None:
    """Otherwise an editor of one project reads the names of the others with the name of a set."""
    own = document("Cluster", "dev", project="shop")
    others = document("Cluster", "bank-core", project="bank") + document("Group", "layoffs")
    text = document("Project", "shop") + document("Project", "bank") + cluster("prod")
    assert (await world.apply(text + own + others, prune_set="plat")).applied
    (project,) = await world.memory.rows(ProjectStore, name="shop")
    sue = person(BuiltInRole.EDITOR, "sue", project.target.scope)
    joining = document("Cluster", "new", project="shop")
    plan = await world.apply(joining, sue, prune_set="plat", **options)
    (problem,) = plan.problems
    assert (problem.code, problem.document) == ("FORBIDDEN", "")
    assert "would lose 4 resources that you may not read" in problem.message
    assert actions(plan) == [("CREATE", "Cluster", "new")]
    assert not any(name in repr(plan) for name in ("bank", "layoffs", "prod", "dev"))
    assert await handles(world) == ["bank-core", "dev", "prod"]


async def test_a_protected_resource_is_not_pruned(world: ManifestWorld) -> None:
    await world.apply(cluster("eu-1", protect=True) + cluster("eu-2"), prune_set="fleet")
    plan = await world.apply(cluster("eu-2"), prune_set="fleet", max_deletions=5)
    assert "protected against deletion" in plan.problems[0].message
    assert await handles(world) == ["eu-1", "eu-2"]


async def test_secrets_are_masked_and_applied_once(world: ManifestWorld) -> None:
    text = document("GitRepository", REPOSITORY, {"username": "ci", "password": "canary-pw"})
    plan = await world.apply(text)
    assert "canary-pw" not in repr(plan)
    assert "canary-pw" not in await world.export()
    again = await world.apply(text)
    assert actions(again) == [("UNCHANGED", "GitRepository", REPOSITORY)]
    changed = await world.apply(text.replace("canary-pw", "canary-new"))
    assert actions(changed) == [("UPDATE", "GitRepository", REPOSITORY)]
    assert "canary" not in repr(changed)


TRIGGERED = {
    "onCommit": False,
    "stages": [{"name": "dev", "services": ["eu-1/web"]}],
    "triggers": [
        {
            "name": "hook",
            "rule": {"kind": "SCHEDULE", "cron": "0 9 * * 1"},
            "webhookSecret": "canary-71aa-hook",
        }
    ],
}


async def test_secrets_inside_of_lists_are_masked(world: ManifestWorld) -> None:
    await world.apply(cluster("eu-1") + document("GitRepository", REPOSITORY) + service("web"))
    text = document("Pipeline", "shop", TRIGGERED)
    created = await world.apply(text)
    assert created.problems == ()
    assert "********" in repr(created)
    changed = await world.apply(text.replace("canary-71aa-hook", "canary-71ab-hook"))
    assert [
        (change.path, change.before, change.after)
        for item in changed.items
        for change in item.changes
    ] == [("spec.triggers[0].webhookSecret", None, '"********"')]
    assert "canary-71" not in repr(created) + repr(changed) + await world.export()


async def test_a_change_inside_of_a_list_is_shown_by_its_path(world: ManifestWorld) -> None:
    await world.apply(cluster("eu-1") + document("GitRepository", REPOSITORY) + service("web"))
    text = document("Pipeline", "shop", TRIGGERED)
    await world.apply(text)
    plan = await world.apply(text.replace("0 9 * * 1", "0 8 * * 1"), dry_run=True)
    (item,) = plan.items
    assert ("spec.triggers[0].rule.cron", '"0 9 * * 1"', '"0 8 * * 1"') in [
        (change.path, change.before, change.after) for change in item.changes
    ]


async def test_sources_of_secrets_are_for_the_client_alone(world: ManifestWorld) -> None:
    plan = await world.apply(document("Secret", "db", {"value": {"env": "HOME"}}))
    (problem,) = plan.problems
    assert "only `towline apply` reads `env` and `file`" in problem.message


@pytest.mark.parametrize("text", ["", "# nothing yet\n---\n"])
async def test_files_without_documents_are_refused(world: ManifestWorld, text: str) -> None:
    await world.apply(cluster("eu-1"), prune_set="fleet")
    plan = await world.apply(text, prune_set="fleet", max_deletions=9)
    assert [problem.message for problem in plan.problems] == ["the files contain no documents"]
    assert await handles(world) == ["eu-1"]


async def test_exports_and_imports_are_fields_of_services(world: ManifestWorld) -> None:
    base = cluster("eu-1") + document("GitRepository", REPOSITORY)
    database = [
        {"name": "port", "type": "NUMBER", "value": 5432},
        {"name": "host", "value": "db.svc"},
    ]
    imported = [{"alias": "host", "service": "eu-1/db", "export": "host"}]
    text = base + service("web", imports=imported) + service("db", exports=database)
    assert (await world.apply(text)).problems == ()
    again = await world.apply(text, manager="other", dry_run=True)
    assert {item.action for item in again.items} == {ManifestAction.UNCHANGED}
    plan = await world.apply(base + service("web", imports=imported) + service("db"))
    assert [problem.code for problem in plan.problems] == ["CONFLICT"]
    dropped = await world.apply(base + service("web") + service("db", exports=database))
    assert dropped.problems == ()
    assert "imports" not in await world.export("Service")
    assert "kind: Service" in await world.export("service")


async def test_templates_accept_only_fields_that_take_effect(world: ManifestWorld) -> None:
    template = {"name": "a", "namespace": "a", "repository": REPOSITORY, "paused": True}
    spec = {"selector": {"tags": {"a": "b"}}, "template": template}
    await world.apply(document("GitRepository", REPOSITORY))
    plan = await world.apply(document("GlobalService", "a", spec))
    assert [problem.field for problem in plan.problems] == ["spec.template.paused"]


async def test_resources_of_documents_are_deleted_together(world: ManifestWorld) -> None:
    text = cluster("eu-1") + document("ClusterGroup", "all", {"clusters": ["eu-1"]})
    await world.apply(text)
    files = [world.source(text)]
    plan = await world.manifests.delete(EDITOR, files)
    assert plan.applied
    assert [item.action for item in plan.items] == [ManifestAction.DELETE] * 2
    assert (await world.manifests.delete(EDITOR, files)).problems == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &x [1]\nb: *x\n", "anchors and aliases are not supported"),
        ("a: 1\na: 2\n", "occurs twice"),
        ("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2), "nested deeper"),
        ("a: [", "is not YAML"),
        ("- 1\n", "must be an object with apiVersion"),
        (
            "apiVersion: v1\nkind: Cluster\nmetadata: {name: a}\n",
            "must be towline.io/v1, not 'v1'; put objects of Kubernetes into the folder",
        ),
        (
            "apiVersion: towline.io/v2\nkind: Cluster\nmetadata: {name: a}\n",
            "must be towline.io/v1, not 'towline.io/v2'",
        ),
        ("kind: Cluster\nmetadata: {name: a}\n", "must be towline.io/v1"),
        ("a: " + "x" * (9 * 1024 * 1024), "bytes of manifests"),
        ("---\na: 1\n" * 5_001, "at most 5,000 are allowed"),
    ],
)
async def test_unreadable_files_are_refused(world: ManifestWorld, text: str, reason: str) -> None:
    plan = await world.apply(text)
    assert any(reason in problem.message for problem in plan.problems)


async def test_an_export_conceals_role_bindings_and_settings_of_sinks(world: ManifestWorld) -> None:
    sink = {"settings": {"kind": "WEBHOOK", "webhook": {"url": "https://hooks.example.org/x"}}}
    bindings = {"editor": {"users": ["ci@example.org"]}}
    text = document("ServiceAccount", "ci@example.org") + document("NotificationSink", "hook", sink)
    assert (await world.apply(text + cluster("eu-1", bindings=bindings))).problems == ()
    assert "bindings:" in await world.export()
    seen = await world.manifests.export(VIEWER)
    assert "name: eu-1" in seen
    assert "bindings:" not in seen
    assert "settings:" not in seen


async def test_an_operation_of_a_batch_publishes_only_after_the_commit() -> None:
    memory = operations_over_memory()
    clusters = Clusters(memory.context)
    async with open_batch(memory.context.store) as batch:
        await clusters.create(EDITOR, ClusterChange(name="eu-1"))
        assert memory.published == []
        batch.drop()
    assert memory.published == []
    async with open_batch(memory.context.store):
        await clusters.create(EDITOR, ClusterChange(name="eu-1"))
    assert [topic for topic, _ in memory.published] == [CLUSTER]


async def test_a_conflict_inside_a_batch_is_not_tried_again_there() -> None:
    memory = operations_over_memory()
    tries = 0

    @retry_operations
    class Collides:
        _context = memory.context

        async def change(self) -> None:
            nonlocal tries
            tries += 1
            raise TransactionConflict("collided")

    with pytest.raises(TransactionConflict):
        async with open_batch(memory.context.store):
            await Collides().change()
    assert tries == 1


async def test_an_apply_adds_the_history_of_its_services_and_a_plan_does_not(
    world: ManifestWorld,
) -> None:
    await world.apply(cluster("eu-1") + document("GitRepository", REPOSITORY))
    await world.apply(service("web"), dry_run=True)
    assert await world.memory.ledger() == []
    await world.apply(service("web"))
    await world.apply(service("web", ref="v2") + service("database"))
    first, *rest = await world.memory.ledger()
    assert first.stage is LedgerStage.CREATED
    assert {(entry.service_id == first.service_id, entry.stage.name) for entry in rest} == {
        (False, "CREATED"), (True, "CONFIGURED"),
    }  # fmt: skip


@pytest.mark.parametrize("dry_run", [True, False])
async def test_unknown_fields_and_missing_references_are_listed_at_once(
    world: ManifestWorld, dry_run: bool
) -> None:
    """Documents that refer to a malformed one have no problem of their own."""
    malformed = document("Cluster", "eu-1", {"tagz": {}}, project="nowhere")
    service = {"namespace": "shop", "folder": "x", "repository": "https://none.example.org/x.git"}
    text = malformed + document("Service", "web", service, cluster="eu-1")
    plan = await world.apply(text, dry_run=dry_run)
    assert sorted(problem.message for problem in plan.problems) == [
        "Project 'nowhere' does not exist, or you may not read it",
        "Repository 'https://none.example.org/x.git' does not exist, or you may not read it",
        "unknown field 'tagz'; did you mean tags?",
    ]
    assert not plan.applied and await world.export("Cluster") == ""


async def test_an_export_names_the_managers_of_fields_on_request(world: ManifestWorld) -> None:
    await world.apply(document("Cluster", "eu-1", {"tags": {"a/b": "1"}}), manager="git")
    await world.apply(document("Cluster", "eu-1", {"tags": {"c": "2"}, "protect": True}))
    shown = await world.manifests.export(ADMIN, ["Cluster"], managed_fields=True)
    (found,) = yaml.safe_load_all(shown)
    assert found["metadata"]["managedFields"] == [
        {"manager": "cli", "fields": ["spec.protect", "spec.tags.c"]},
        {"manager": "git", "fields": ["spec.tags.a/b"]},
    ]
    assert "managedFields" not in await world.export("Cluster")


async def test_agent_settings_select_clusters_and_need_an_administrator(
    world: ManifestWorld,
) -> None:
    spec = {"selector": {"tags": {"env": "prod"}}, "priority": 5, "size": "LARGE"}
    spec |= {"version": "1.2.0", "image": "towline:1.2.0"}
    plan = await world.apply(document("AgentSettings", "prod", spec), EDITOR)
    assert [problem.code for problem in plan.problems] == ["FORBIDDEN"]
    await world.apply(document("AgentSettings", "prod", spec))
    (row,) = await world.memory.rows(AgentSettingsStore)
    (tags, priority, size) = (row.spec.selector.tags, row.spec.priority, row.spec.size)
    assert (tags, priority, size) == ({"env": "prod"}, 5, AgentSize.LARGE)
    assert actions(await world.apply(document("AgentSettings", "prod", spec))) == [
        ("UNCHANGED", "AgentSettings", "prod")
    ]
    assert actions(await world.apply(document("AgentSettings", "prod", {"priority": 5}))) == [
        ("UPDATE", "AgentSettings", "prod")
    ]
    (row,) = await world.memory.rows(AgentSettingsStore)
    assert row.spec == AgentSpec(priority=5)
    await world.manifests.delete(ADMIN, [world.source(document("AgentSettings", "prod"))])
    assert await world.memory.rows(AgentSettingsStore) == []


async def test_agent_settings_are_exported_for_those_who_may_register_clusters(
    world: ManifestWorld,
) -> None:
    await world.apply(document("AgentSettings", "global", {"agentValues": "secret: x\n"}))
    assert "secret: x" in await world.export("AgentSettings")
    assert "secret: x" not in await world.manifests.export(VIEWER, ["AgentSettings"])


async def test_one_resource_is_read_with_and_without_its_defaults(world: ManifestWorld) -> None:
    await world.apply(
        cluster("eu-1")
        + document("GitRepository", REPOSITORY, {"password": "canary-7a1b-heron"})
        + document(
            "Service", "web", {"namespace": "shop", "repository": REPOSITORY}, cluster="eu-1"
        )
    )
    read = world.manifests.document
    full = await read(ADMIN, "Service", "eu-1/web")
    assert full["metadata"] == {"name": "web", "cluster": "eu-1", "project": "default"}
    assert (full["spec"]["repository"], full["spec"]["paused"]) == (REPOSITORY, False)
    plain = await read(ADMIN, "service", "eu-1/web", with_defaults=False)
    assert plain["spec"] == {"namespace": "shop", "repository": REPOSITORY}
    assert "password" not in (await read(ADMIN, "GitRepository", REPOSITORY))["spec"]
    elsewhere = person(BuiltInRole.VIEWER, "eve", Scope("project:other"))
    for actor, name in ((ADMIN, "eu-1/none"), (elsewhere, "eu-1/web")):
        with pytest.raises(NotFound, match="does not exist, or you may not read it"):
            await read(actor, "Service", name)
    with pytest.raises(Forbidden, match="you have no role"):
        await read(NOBODY, "Service", "eu-1/web")


async def test_a_problem_names_its_field_in_its_place_or_in_its_message(
    world: ManifestWorld,
) -> None:
    """Operations also name fields that no manifest has, such as those of plug-ins."""
    settings = {"kind": "WEBHOOK", "webhook": {"url": "https://hooks.example.org", "secret": "x"}}
    sink = document("NotificationSink", "hook", {"settings": settings})
    group = document("ClusterGroup", "prod", {"maxChanging": -1})
    plan = await world.apply(sink + group, dry_run=True)
    found = [(problem.field, problem.message.partition(" ")[0]) for problem in plan.problems]
    assert found == [("spec.settings.webhook.secret", "must"), ("spec.maxChanging", "must")]


async def test_a_deleted_service_account_is_enabled_again(world: ManifestWorld) -> None:
    """Its deletion keeps the row, for the author of its entries in the audit log."""
    account = document("ServiceAccount", "ci@example.org", {"displayName": "CI"})
    await world.apply(account)
    await world.manifests.delete(ADMIN, [world.source(account)])
    with pytest.raises(NotFound):
        await world.manifests.document(ADMIN, "ServiceAccount", "ci@example.org")
    plan = await world.apply(account)
    assert actions(plan) == [("CREATE", "ServiceAccount", "ci@example.org")]
    (row,) = await world.memory.rows(UserStore)
    assert (row.name, row.disabled_at) == ("CI", None)


@pytest.mark.parametrize("options", [{}, {"prune_set": "fleet"}, {"manager": "other"}])
async def test_a_reader_changes_no_metadata_of_a_resource(
    world: ManifestWorld, options: dict[str, Any]
) -> None:
    """Otherwise the owner of a set would delete what a reader has added to it."""
    text = "{apiVersion: towline.io/v1, kind: ClusterGroup, metadata: {name: eu%s}}"
    await world.apply(text % "")
    before = await world.memory.rows(DeclaredResourceStore)
    labels = "" if options else ", labels: {team: a}"
    plan = await world.apply(text % labels, VIEWER, **options)
    assert [problem.code for problem in plan.problems] == ["FORBIDDEN"] and not plan.applied
    assert await world.memory.rows(DeclaredResourceStore) == before
    assert (await world.apply(text % "", VIEWER)).applied


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ('"bad label": a', "'bad label' is no name of a label"),
        ('"": a', "'' is no name of a label"),
        ("a/b/c/d: a", "'a/b/c/d' is no name of a label"),
        ('env: "prod: z"', "'prod: z' is no value of a label"),
        (f"env: {'a' * 64}", "is no value of a label"),
    ],
)
async def test_labels_that_kubernetes_refuses_are_refused(
    world: ManifestWorld, labels: str, reason: str
) -> None:
    text = (
        "apiVersion: towline.io/v1\nkind: Cluster\nmetadata:\n  name: dev\n"
        f"  labels:\n    x.io/team: ''\n    {labels}\n"
    )
    plan = await world.apply(text)
    (problem,) = plan.problems
    assert reason in problem.message and problem.line == 7
    assert problem.field.startswith("metadata.labels.")
    assert await handles(world) == []


async def test_only_the_names_of_annotations_are_checked(world: ManifestWorld) -> None:
    text = (
        "{apiVersion: towline.io/v1, kind: Cluster, "
        "metadata: {name: dev, annotations: {x.io/note: 'any: text / at all', %s: a}}}"
    )
    (problem,) = (await world.apply(text % "'a b'")).problems
    assert "'a b' is no name of an annotation" in problem.message
    assert (problem.line, problem.field) == (1, "metadata.annotations.a b")
    assert (await world.apply(text % "c")).problems == ()


async def test_a_change_of_labels_is_shown_and_audited(world: ManifestWorld) -> None:
    group = "{apiVersion: towline.io/v1, kind: ClusterGroup, metadata: {name: eu%s}}"
    shown = []
    for labels in ("", ", labels: {team: a}", ", labels: {team: b, tier: x}"):
        (item,) = (await world.apply(group % labels, EDITOR)).items
        shown.append((item.action.value, [(c.path, c.before, c.after) for c in item.changes]))
    assert shown == [
        ("CREATE", []),
        ("UPDATE", [("metadata.labels.team", None, '"a"')]),
        (
            "UPDATE",
            [("metadata.labels.team", '"a"', '"b"'), ("metadata.labels.tier", None, '"x"')],
        ),
    ]
    actions = ("createClusterGroup", "applyManifests", "applyManifests")
    entries = await world.memory.audited()
    assert entries == [("ed@example.org", action, "eu") for action in actions]


async def test_labels_of_a_resource_without_a_manifest_are_audited(world: ManifestWorld) -> None:
    await world.operations[Clusters].create(ADMIN, ClusterChange("dev"))
    await world.apply(
        "{apiVersion: towline.io/v1, kind: Cluster, metadata: {name: dev, labels: {a: b}}}"
    )
    assert [action for _, action, _ in await world.memory.audited()] == [
        *("createCluster", "applyManifests"),
    ]
