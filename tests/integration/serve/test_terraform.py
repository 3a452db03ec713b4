"""The life of a Terraform configuration against a running control plane.

`tests/terraform` stands for the unmodified provider: its documents, its strict decoder, its loops.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import migrated
from tests.integration.serve.conftest import Running, running
from tests.terraform.provider import Failed, Gone, Provider, definitions
from tests.terraform.resources import (
    Cluster,
    Context,
    GlobalService,
    Group,
    Project,
    Repository,
    Service,
    ServiceAccount,
    User,
    subjects,
)

ABSENT = "00000000-0000-7000-8000-00000000ffff"
URL = "https://git.example.org/fleet.git"


# The provider knows no fences.
OPEN_PROJECTS: dict[str, Any] = {"auth": {"open_projects": True}}


@pytest.fixture(params=["sqlite", "postgres"])
async def stored_hub(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Running]:
    """A control plane on each database."""
    if request.param == "sqlite":
        async with running(tmp_path / "data", **OPEN_PROJECTS) as hub:
            yield hub
        return
    server = request.getfixturevalue("postgres")
    database = migrated.new_postgres(server)
    async with running(tmp_path / "data", database=database, **OPEN_PROJECTS) as hub:
        yield hub
    server.drop_database(database)


def provider(hub: Running) -> Provider:
    """A run with the administrator's token."""
    return Provider(hub.http, hub.url, hub.token)


async def as_user(hub: Running, email: str, role: str | None) -> Provider:
    """A run with the token of a service account that has this role everywhere, or none."""
    made = await hub.ask(
        """mutation ($attributes: ServiceAccountAttributes!) {
          createServiceAccount(attributes: $attributes) { id email } }""",
        attributes={"name": email, "email": email},
    )
    account = made["createServiceAccount"]
    if role is not None:
        await hub.ask(
            """mutation ($email: String!, $role: BuiltInRole!) {
              upsertUser(attributes: {email: $email, role: $role}) { id } }""",
            email=account["email"],
            role=role,
        )
    token = await hub.ask(
        """mutation ($id: ID!) {
          createServiceAccountToken(id: $id, attributes: {name: "tf"}) { token } }""",
        id=account["id"],
    )
    return Provider(hub.http, hub.url, token["createServiceAccountToken"]["token"])


async def test_a_configuration_lives_from_create_to_destroy(stored_hub: Running) -> None:
    """Create, plan without a difference, update, drift, destroy: all operations, in their order."""
    run = provider(stored_hub)
    user, group = User("ada@example.org"), Group("team")
    await run.side_by_side(lambda: user.create(run), lambda: group.create(run))
    member = {"groupId": group.id, "userId": user.id}
    joined = await run.call("AddGroupMember", **member)
    assert (joined["user"]["id"], joined["group"]["id"]) == (user.id, group.id)
    project = Project("payments", readers=(user.id,), writer_groups=(group.id,))
    await project.create(run)
    cluster = Cluster("Prod EU", project_id=project.id, metadata='{"zone": ["a", 1]}')
    cluster.tags = {"stage": "prod", "region": "eu"}
    repository = Repository(URL, username="bot", password="secret")
    await run.side_by_side(lambda: cluster.create(run), lambda: repository.create(run))
    assert cluster.handle == "prod-eu"
    shop = Service("shop", cluster.id, repository_id=repository.id, configuration={"A": "1"})
    web = Service("web", cluster_handle=cluster.handle, repository_id=repository.id)
    web.folder, web.kustomize = "./deploy/", "overlays/prod/"
    context = Context("vpc", {"id": "vpc-1", "<&>": [1, None]}, {"password": "hidden"})
    await run.side_by_side(*(lambda one=one: one.create(run) for one in (shop, web, context)))
    everywhere = GlobalService("shop-everywhere", shop.id, "EKS", {"stage": "prod"})
    await everywhere.create(run)
    await rbac(run, cluster, shop, user, group)

    account = ServiceAccount("CI bot", "ci@example.org")
    await account.create(run)
    every = (user, account, group, project, cluster, repository, shop, web, context)
    await check_unchanged(run, every)
    account.name = "CD bot"
    await account.update(run)
    await change(run, user, group, project, cluster, repository, shop, context, everywhere)
    await check_unchanged(run, every)
    await check_sources(run, cluster, project, repository)
    await check_drift(run, shop)

    for one in (everywhere, shop, web, context, cluster, repository):
        await one.delete(run)
    await run.call("DeleteGroupMember", **member)
    await group.delete(run)
    await check_deleted_twice(run, everywhere, shop, context, cluster, repository, group, user)
    assert run.called == definitions()[0].keys() - {"DetachCluster"}


async def test_a_named_default_project_stays_and_an_unnamed_one_is_not_returned(
    stored_hub: Running,
) -> None:
    """Else Terraform plans a change that it can never make."""
    run = provider(stored_hub)
    default = (await run.call("GetProject", name="default"))["id"]
    unnamed = (Cluster("plain"), Context("plain", {"a": 1}))
    named = (Cluster("given", project_id=default), Context("given", {"a": 1}, project_id=default))
    for resource in (*unnamed, *named):
        await resource.create(run)
    await check_unchanged(run, (*unnamed, *named))
    _, context = unnamed
    context.project_id = default
    await context.update(run)
    await check_unchanged(run, (context,))


async def rbac(run: Provider, cluster: Cluster, shop: Service, user: User, group: Group) -> None:
    """Bindings of a cluster and of a service."""
    rights = {"readBindings": [{"userId": user.id}], "writeBindings": [{"groupId": group.id}]}
    assert await run.call("UpdateRbac", rbac=rights, clusterId=cluster.id) is True
    assert await run.call("UpdateRbac", rbac=rights, serviceId=shop.id) is True


async def check_unchanged(run: Provider, every: tuple, plans: int = 2) -> None:
    """A plan has nothing to do, however often one asks."""
    for _ in range(plans):
        responses = await run.side_by_side(*(lambda one=one: one.read(run) for one in every))
        assert responses == [one.planned() for one in every]


async def change(
    run: Provider,
    user: User,
    group: Group,
    project: Project,
    cluster: Cluster,
    repository: Repository,
    shop: Service,
    context: Context,
    everywhere: GlobalService,
) -> None:
    """An apply that changes something of everything."""
    user.name, group.description, group.everyone = "Ada", "the team", False
    project.description, project.readers = "All about money", ()
    project.writer_groups = (group.id,)
    cluster.tags, cluster.metadata, cluster.protect = {"stage": "dev"}, '{"b": {"c": 2}}', True
    repository.url = "https://git.example.org/moved.git"
    shop.configuration, shop.folder, shop.templated = {"B": "2"}, ".", True
    context.configuration, everywhere.tags = {"new": True}, {"stage": "dev"}
    project.readers = (user.id,)
    every = (user, group, project, cluster, repository, shop, context, everywhere)
    await run.side_by_side(*(lambda one=one: one.update(run) for one in every))
    with pytest.raises(Failed, match="protected"):
        await run.call("DeleteCluster", id=cluster.id)
    cluster.protect = False
    await cluster.update(run)


async def check_sources(
    run: Provider, cluster: Cluster, project: Project, repository: Repository
) -> None:
    """What data sources, imports, the wait for a service and an installation of an agent read."""
    assert (await run.call("GetClusterByHandle", handle=cluster.handle))["id"] == cluster.id
    assert (await run.call("GetProject", name=project.name))["id"] == project.id
    assert (await run.call("GetGitRepository", url=repository.url))["id"] == repository.id
    assert (await run.call("GetGitRepository", id=repository.id))["url"] == repository.url
    waited = await run.call("GetServiceDeploymentByHandle", cluster=cluster.handle, name="shop")
    assert waited["status"] in ("STALE", "FAILED")
    tokens = [await run.call("GetClusterWithToken", id=cluster.id) for _ in range(2)]
    assert len({one["deployToken"] for one in tokens}) == 2
    settings = await run.call("GetDeploymentSettings")
    assert settings["agentHelmValuesTemplateable"] is False
    assert (await run.call("GetDeploymentSettingsMinimal"))["agentVsn"] == settings["agentVsn"]


async def check_drift(run: Provider, shop: Service) -> None:
    """What somebody else has changed shows, and the next apply puts it back."""
    other = replace(shop, configuration={"B": "9"}, protect=True)
    await other.update(run)
    assert await shop.read(run) != shop.planned()
    await shop.update(run)
    assert await shop.read(run) == shop.planned()


async def check_deleted_twice(
    run: Provider,
    everywhere: GlobalService,
    shop: Service,
    context: Context,
    cluster: Cluster,
    repository: Repository,
    group: Group,
    user: User,
) -> None:
    """Deleting and reading what has gone says so; a user and a project stay behind."""
    gone = [
        ("DeleteGlobalService", {"id": everywhere.id}),
        ("DeleteServiceDeployment", {"id": shop.id}),
        ("DeleteServiceContext", {"id": context.id}),
        ("DeleteCluster", {"id": cluster.id}),
        ("DeleteGitRepository", {"id": repository.id}),
        ("DeleteGroup", {"groupId": group.id}),
        ("DeleteGroupMember", {"groupId": group.id, "userId": user.id}),
        ("GetServiceContext", {"name": context.name}),
        ("GetGroup", {"name": group.name}),
        ("GetGroup", {"name": ""}),
        ("GetServiceContext", {"name": ""}),
        ("GetUser", {"email": "nobody@example.org"}),
        ("GetProject", {"name": "nothing"}),
        ("GetGitRepository", {"id": repository.id, "url": repository.url}),
    ]
    assert [name for name, given in gone if not await run.gone(name, **given)] == []
    again = User(user.email, "Ada")
    await again.create(run)
    assert again.id == user.id


async def test_fifty_services_are_applied_and_destroyed_at_once(stored_hub: Running) -> None:
    """Every one exists once; destroying them leaves nothing to wait for."""
    run = provider(stored_hub)
    cluster, repository = Cluster("many"), Repository(URL)
    await run.side_by_side(lambda: cluster.create(run), lambda: repository.create(run))
    every = [Service(f"s{n}", cluster.id, repository_id=repository.id) for n in range(50)]
    await run.side_by_side(*(lambda one=one: one.create(run) for one in every))
    assert len({one.id for one in every}) == 50
    await check_unchanged(run, tuple(every), plans=1)
    await run.side_by_side(*(lambda one=one: one.delete(run) for one in every))
    await cluster.delete(run)
    await repository.delete(run)


async def test_a_token_that_is_no_good_never_reads_as_gone(hub: Running) -> None:
    """Else a refresh would drop every resource from the state."""
    run = provider(hub)
    cluster = Cluster("kept")
    await cluster.create(run)
    made = await hub.ask('mutation { createAccessToken(attributes: {name: "tf"}) { id token } }')
    token = made["createAccessToken"]
    late = Provider(hub.http, hub.url, token["token"])
    assert (await late.call("GetCluster", id=cluster.id))["handle"] == "kept"
    await hub.ask("mutation ($id: ID!) { deleteAccessToken(id: $id) { id } }", id=token["id"])
    for worthless in (late, Provider(hub.http, hub.url, "console-nonsense")):
        with pytest.raises(Failed, match="not known|revoked") as refused:
            await worthless.call("GetCluster", id=cluster.id)
        assert "could not find resource" not in str(refused.value)


async def test_a_token_without_roles_never_reads_as_gone(hub: Running) -> None:
    """Also of what does not exist: else the answers would tell what exists."""
    run, stranger = provider(hub), await as_user(hub, "stranger@example.org", None)
    cluster, repository, project = Cluster("kept"), Repository(URL), Project("kept")
    for one in (cluster, repository, project):
        await one.create(run)
    service, context = Service("s", cluster.id, repository_id=repository.id), Context("vpc", {})
    for one in (service, context, User("ada@example.org", "Ada")):
        await one.create(run)
    reads = [
        ("GetCluster", [{"id": cluster.id}, {"id": ABSENT}]),
        ("GetClusterByHandle", [{"handle": "kept"}, {"handle": "absent"}]),
        ("GetGitRepository", [{"id": repository.id, "url": URL}, {"id": ABSENT}]),
        ("GetProject", [{"id": project.id}, {"name": "absent"}]),
        ("GetServiceDeployment", [{"id": service.id}, {"id": ABSENT}]),
        ("GetServiceContext", [{"name": "vpc"}, {"name": "absent"}]),
        ("GetUser", [{"email": "ada@example.org"}, {"email": "absent@example.org"}]),
        ("DeleteServiceDeployment", [{"id": service.id}, {"id": ABSENT}]),
    ]
    for name, given in reads:
        for variables in given:
            with pytest.raises(Failed, match="may not read .*: needs role") as refused:
                await stranger.call(name, **variables)
            assert not isinstance(refused.value, Gone), name


async def test_an_editor_plans_what_an_administrator_applied(hub: Running) -> None:
    """Bindings show as a whole, and a user that the editor may not read is not gone."""
    run, editor = provider(hub), await as_user(hub, "ed@example.org", "EDITOR")
    user, group = User("ada@example.org", "Ada"), Group("team")
    await user.create(run)
    await group.create(run)
    project = Project("payments", readers=(user.id,), writer_groups=(group.id,))
    await project.create(run)
    cluster = Cluster("dev", project_id=project.id)
    await cluster.create(run)
    rights = {"readBindings": [{"userId": user.id}], "writeBindings": [{"groupId": group.id}]}
    await run.call("UpdateRbac", rbac=rights, clusterId=cluster.id)
    for one in (project, cluster):
        assert await one.read(editor) == one.planned()
    response = await editor.call("GetCluster", id=cluster.id)
    assert subjects(response["readBindings"]) == {(user.id, None)}
    assert subjects(response["writeBindings"]) == {(None, group.id)}
    with pytest.raises(Failed, match="may not read users"):
        await user.read(editor)
    viewer = await as_user(hub, "vi@example.org", "VIEWER")
    assert (await viewer.call("GetCluster", id=cluster.id))["readBindings"] == []


async def test_unsupported_attributes_are_refused_with_the_reason(hub: Running) -> None:
    """Rather than left out in silence; a refused create leaves nothing behind."""
    run = provider(hub)
    cluster, repository = Cluster("dev"), Repository(URL)
    await cluster.create(run)
    await repository.create(run)
    service = {"name": "x", "namespace": "x", "repositoryId": repository.id}
    service["git"] = {"ref": "main", "folder": "x"}
    for attributes, said in (
        ({"helm": {"repository": {"name": "a", "namespace": "b"}}}, "helm.url"),
        ({"git": {"ref": "main", "folder": "x", "files": ["y"]}}, "git.files"),
    ):
        with pytest.raises(Failed, match=said):
            await run.call(
                "CreateServiceDeployment",
                clusterId=cluster.id,
                attributes={**service, **attributes},
            )
    with pytest.raises(Failed, match="git-crypt is not supported"):
        await run.call("CreateGitRepository", attributes={"url": URL + "x", "decrypt": True})
    nobody = {"readBindings": [], "writeBindings": [{"userId": "", "groupId": None}]}
    with pytest.raises(Failed, match="a binding needs userId or groupId"):
        await run.call("UpdateRbac", rbac=nobody, clusterId=cluster.id)
    with pytest.raises(Failed, match="already exists"):
        await Cluster("again", handle="dev").create(run)
    await Service("x", cluster.id, repository_id=repository.id).create(run)


async def test_a_missing_reference_is_named(hub: Running) -> None:
    """`could not find resource` would mean the resource itself; nothing is left behind."""
    run = provider(hub)
    cluster, repository, group = Cluster("dev"), Repository(URL), Group("team")
    for one in (cluster, repository, group):
        await one.create(run)
    service = {"name": "x", "namespace": "x", "git": {"ref": "main", "folder": "x"}}
    own = {**service, "repositoryId": repository.id}
    bound = {"name": "other", "readBindings": [{"userId": ABSENT}]}
    for name, field, given in (
        ("CreateServiceDeployment", "clusterId", {"clusterId": ABSENT, "attributes": own}),
        ("CreateServiceDeploymentWithHandle", "cluster", {"cluster": "no", "attributes": own}),
        (
            "CreateServiceDeployment",
            "repositoryId",
            {"clusterId": cluster.id, "attributes": {**service, "repositoryId": ABSENT}},
        ),
        (
            "CreateServiceDeployment",
            "bindings.userId",
            {"clusterId": cluster.id, "attributes": {**own, **bound, "name": "x"}},
        ),
        ("CreateCluster", "projectId", {"attributes": {"name": "other", "projectId": ABSENT}}),
        ("CreateCluster", "bindings.userId", {"attributes": bound}),
        ("CreateProject", "bindings.userId", {"attributes": bound}),
        ("SaveServiceContext", "projectId", {"name": "x", "attributes": {"projectId": ABSENT}}),
        (
            "CreateGlobalServiceDeployment",
            "serviceId",
            {"serviceId": ABSENT, "attributes": {"name": "everywhere"}},
        ),
        ("AddGroupMember", "groupId", {"groupId": ABSENT, "userId": ABSENT}),
        ("AddGroupMember", "userId", {"groupId": group.id, "userId": ABSENT}),
        ("UpdateRbac", "clusterId", {"clusterId": ABSENT, "rbac": {"readBindings": []}}),
        ("UpdateRbac", "serviceId", {"serviceId": ABSENT, "rbac": {"readBindings": []}}),
    ):
        with pytest.raises(Failed, match=f"^{field}: .* does not exist, or you may not") as refused:
            await run.call(name, **given)
        assert not isinstance(refused.value, Gone), name
    await Cluster("other").create(run)
    await Project("other").create(run)
    await Service("x", cluster.id, repository_id=repository.id).create(run)


async def test_nulls_in_lists_are_left_out(hub: Running) -> None:
    run = provider(hub)
    tags = [None, {"name": "stage", "value": "prod"}]
    made = await run.call("CreateCluster", attributes={"name": "dev", "tags": tags})
    assert made["tags"] == [{"name": "stage", "value": "prod"}]
    secrets = [{"name": "a", "value": "b"}, None]
    attributes = {"configuration": "{}", "secrets": secrets}
    assert (await run.call("SaveServiceContext", name="vpc", attributes=attributes))["id"]


async def test_detaching_forgets_a_cluster_and_protection_keeps_a_service(hub: Running) -> None:
    run = provider(hub)
    cluster, repository = Cluster("dev"), Repository(URL)
    await cluster.create(run)
    await repository.create(run)
    service = Service("kept", cluster.id, repository_id=repository.id, protect=True)
    await service.create(run)
    with pytest.raises(Failed, match="protected"):
        await run.call("DeleteServiceDeployment", id=service.id)
    assert await service.read(run) == service.planned()
    await run.call("DetachCluster", id=cluster.id)
    assert await run.gone("GetCluster", id=cluster.id)
    assert await run.gone("GetServiceDeployment", id=service.id)


async def test_the_agents_chart_is_served_to_everybody(hub: Running) -> None:
    """Helm takes the answer as it is; a second fetch with its tag brings nothing."""
    url = f"{hub.url}/ext/v1/agent/chart"
    async with hub.http.get(url) as answer:
        assert (answer.status, answer.content_type) == (200, "application/gzip")
        assert (await answer.read())[:2] == b"\x1f\x8b"
        tag = answer.headers["etag"]
    async with hub.http.get(url, headers={"if-none-match": tag}) as answer:
        assert (answer.status, await answer.read()) == (304, b"")
