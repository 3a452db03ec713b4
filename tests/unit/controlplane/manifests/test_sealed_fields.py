"""Secret fields of manifests take sealed values, which open in their own place only."""

from functools import cache
from typing import Any

import pytest

from controlplane.configuration.operations.contexts import ServiceContexts
from controlplane.configuration.ports import ContextStore
from controlplane.kinds import all_kinds
from controlplane.manifests.model.codec import SpecCodec
from controlplane.manifests.model.plan import ManifestAction
from controlplane.notifications.operations.sinks import Sinks
from controlplane.notifications.ports import SinkStore
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.ports import PipelineStore, PipelineTriggerStore
from controlplane.repositories.operations import RepositoryOperations
from controlplane.repositories.ports import RepositoryStore
from core.sealed_places import SealedPlace
from core.sealed_values import seal_field
from tests.fakes.actors import ADMIN, VIEWER
from tests.fakes.manifest_world import ManifestWorld, document, manifest_world

REPOSITORY = "https://git.example.org/fleet.git"
HOOK = "https://hooks.example.org/canary-51d0-otter"
SIGNING = "whsec_Y2FuYXJ5LTUxZDEtb3R0ZXItYW5kLW1vcmU="
PASSWORD = "canary-51d2-otter"


@cache
def sealed(kind: str, name: str, path: str, plain: str, project: str = "default", **to: str) -> Any:
    """A sealed value for one place."""
    key = manifest_world().memory.context.sealer.manifest_key.public
    place = SealedPlace(kind, name, project, tuple(path.split("/")), to)
    return {"sealed": seal_field(key, place, plain)}


def sink(name: str = "hook", **settings: Any) -> str:
    """A sink whose address is sealed for the sink `hook`."""
    url = sealed("NotificationSink", "hook", "settings/webhook/url", HOOK, "")
    return document(
        "NotificationSink", name, {"settings": {"kind": "WEBHOOK", "webhook": {"url": url}}}
    )


def repository(name: str = REPOSITORY, **spec: Any) -> str:
    """A repository with a sealed password and webhook secret."""
    return document(
        "GitRepository",
        name,
        {
            "password": sealed("GitRepository", REPOSITORY, "password", PASSWORD),
            "webhookSecret": sealed("GitRepository", REPOSITORY, "webhookSecret", PASSWORD),
            **spec,
        },
    )


def context(**more: Any) -> str:
    secrets = {"a": sealed("Context", "common", "secrets/a", PASSWORD), **more}
    return document("Context", "common", {"secrets": secrets})


def pipeline(url: str = "https://gate.example.org") -> str:
    """A pipeline with sealed secrets of a gate, a step and a trigger."""
    gate = sealed(
        "Pipeline", "main", "edges/one→two/gates/check/rule/http/secret", SIGNING,
        url="https://gate.example.org",
    )  # fmt: skip
    step = sealed(
        "Pipeline", "main", "stages/two/workflow/rule/steps/ask/rule/http/secret", SIGNING,
        url="https://step.example.org",
    )  # fmt: skip
    hook = sealed("Pipeline", "main", "triggers/tags/webhookSecret", PASSWORD)
    rule = {"kind": "HTTP", "http": {"url": url, "secret": gate}}
    ask = {"kind": "HTTP", "http": {"url": "https://step.example.org", "secret": step}}
    workflow = {"kind": "WORKFLOW", "steps": [{"name": "ask", "rule": ask}]}
    return document(
        "Pipeline",
        "main",
        {
            "stages": [
                {"name": "one", "services": ["eu-1/web"]},
                {
                    "name": "two",
                    "services": ["eu-1/shop"],
                    "workflow": {"name": "flow", "rule": workflow},
                },
            ],
            "edges": [
                {"source": "one", "target": "two", "gates": [{"name": "check", "rule": rule}]}
            ],
            "triggers": [
                {
                    "name": "tags",
                    "rule": {"kind": "TAG", "range": ">=1"},
                    "webhookSecret": hook,
                }
            ],
        },
    )


SERVICES = document("Cluster", "eu-1") + "".join(
    document("Service", name, {"namespace": "a", "repository": REPOSITORY}, cluster="eu-1")
    for name in ("web", "shop")
)
EVERYTHING = repository() + sink() + context() + SERVICES + pipeline()


async def applied(*texts: str) -> ManifestWorld:
    world = manifest_world()
    for text in texts:
        assert (await world.apply(text)).problems == ()
    return world


async def actions(world: ManifestWorld, text: str, **options: Any) -> set[ManifestAction]:
    plan = await world.apply(text, dry_run=True, **options)
    assert plan.problems == ()
    return {item.action for item in plan.items}


async def test_a_lost_installation_is_rebuilt_with_its_secrets() -> None:
    first = await applied(EVERYTHING)
    exported = await first.export()
    assert exported.count("sealed: v1.") == 7
    second = await applied(exported)
    assert await second.export() == exported
    (row,) = await second.memory.rows(SinkStore)
    assert getattr(second.operations[Sinks].settings_of(row), "url") == HOOK  # noqa: B009
    (found,) = await second.memory.rows(RepositoryStore)
    secrets = second.operations[RepositoryOperations].secrets_of(found)
    assert (secrets["password"], secrets["webhook_secret"]) == (PASSWORD, PASSWORD)
    (common,) = await second.memory.rows(ContextStore)
    assert second.operations[ServiceContexts].secrets_of(common) == {"a": PASSWORD}
    (record,) = await second.memory.rows(PipelineStore)
    async with second.memory.context.store.read() as tx:
        spec, hooks = await second.operations[Pipelines].with_secrets(tx, record)
    rules = [rule for _, gate in spec.all_gates for rule in gate.rule.leaf_rules()]
    assert [getattr(rule, "sealed") for rule in rules] == [SIGNING, SIGNING]  # noqa: B009
    assert hooks == {"tags": PASSWORD}
    assert len(await second.memory.rows(PipelineTriggerStore)) == 1


async def test_what_was_applied_is_unchanged_for_every_manager() -> None:
    world = await applied(EVERYTHING)
    assert await actions(world, EVERYTHING) == {ManifestAction.UNCHANGED}
    assert await actions(world, EVERYTHING, manager="git") == {ManifestAction.UNCHANGED}
    exported = await world.export()
    assert await actions(world, exported, manager="git") == {ManifestAction.UNCHANGED}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (sink("other"), "NotificationSink 'other' of the installation"),
        (repository("https://evil.example.org/fleet.git"), "GitRepository 'https://evil"),
        (repository(viaCluster="eu-1"), "viaCluster 'eu-1'"),
        (SERVICES + pipeline("https://evil.example.org"), "url 'https://evil.example.org'"),
        (
            document(
                "Context",
                "common",
                {"secrets": {"b": sealed("Context", "common", "secrets/a", "x")}},
            ),
            "Context 'common' of the project 'default'",
        ),
        (
            document(
                "HelmRepository",
                REPOSITORY,
                {"password": sealed("GitRepository", REPOSITORY, "password", "x")},
            ),
            "HelmRepository",
        ),
        (
            document(
                "OCIRepository",
                "oci://registry.example.org/shop",
                {
                    "password": sealed(
                        "OCIRepository", "oci://registry.example.org/bank", "password", "x"
                    )
                },
            ),
            "OCIRepository",
        ),
    ],
)
async def test_a_value_opens_in_its_own_place_only(text: str, kind: str) -> None:
    base = document("Cluster", "eu-1") if "viaCluster" in text else ""
    base += repository() if "Pipeline" in text else ""
    plan = await (await applied(base) if base else manifest_world()).apply(text)
    (problem,) = plan.problems
    assert "was not sealed for this field of " in problem.message and kind in problem.message
    assert problem.line > 1 and not plan.applied


async def test_a_value_of_another_project_does_not_open() -> None:
    world = await applied(document("Project", "shop"))
    text = context().replace("name: common", "name: common\n  project: shop")
    (problem,) = (await world.apply(text)).problems
    assert "of the project 'shop'" in problem.message


async def test_a_value_that_the_api_changed_is_not_exported_and_comes_back() -> None:
    world = await applied(context())
    (row,) = await world.memory.rows(ContextStore)
    other = document("Context", "common", {"secrets": {"a": "another"}})
    assert (await world.apply(other, manager="console", force=True)).problems == ()
    assert "sealed" not in await world.export("Context")
    plan = await world.apply(context(), force=True)
    assert [item.action for item in plan.items] == [ManifestAction.UPDATE]
    assert [(c.path, c.after) for c in plan.items[0].changes] == [
        ("spec.secrets.a.sealed", '"********"')
    ]
    assert "sealed" in await world.export("Context")
    assert world.operations[ServiceContexts].secrets_of(
        (await world.memory.rows(ContextStore))[0]
    ) == {"a": PASSWORD}
    assert row.id


async def test_a_context_with_a_plain_secret_exports_none_of_them() -> None:
    """A part of them would replace all of them."""
    world = await applied(context(b="plain"))
    assert "secrets" not in await world.export("Context")
    assert await actions(world, context(b="plain")) == {ManifestAction.UNCHANGED}
    assert (await world.apply(context())).problems == ()
    (row,) = await world.memory.rows(ContextStore)
    assert world.operations[ServiceContexts].secrets_of(row) == {"a": PASSWORD}
    assert "sealed" in await world.export("Context")


async def test_a_secret_that_leaves_a_context_is_removed_and_that_of_a_repository_stays() -> None:
    both = context(b=sealed("Context", "common", "secrets/b", "b"))
    world = await applied(both, context())
    (row,) = await world.memory.rows(ContextStore)
    assert world.operations[ServiceContexts].secrets_of(row) == {"a": PASSWORD}
    world = await applied(repository(), document("GitRepository", REPOSITORY))
    (found,) = await world.memory.rows(RepositoryStore)
    assert world.operations[RepositoryOperations].secrets_of(found)["password"] == PASSWORD
    assert await actions(world, document("GitRepository", REPOSITORY)) == {ManifestAction.UNCHANGED}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"sealed": "v1.0000000000000000.AAAA"}, "this installation has the key"),
        ({"sealed": "nonsense"}, "is no sealed value"),
        ({"sealed": 1}, "must be text"),
        ({"sealed": "a", "env": "B"}, "must be text"),
    ],
)
async def test_what_is_no_sealed_value_is_refused(value: Any, message: str) -> None:
    text = document("GitRepository", REPOSITORY, {"password": value})
    (problem,) = (await manifest_world().apply(text)).problems
    assert message in problem.message and problem.field.startswith("spec.password")


async def test_only_secret_fields_take_a_sealed_value() -> None:
    text = document("Cluster", "eu-1", {"displayName": {"sealed": "v1.a.b"}})
    (problem,) = (await manifest_world().apply(text)).problems
    assert "only secret fields take a sealed value" in problem.message


async def test_who_may_not_read_the_settings_of_a_sink_sees_no_sealed_value() -> None:
    world = await applied(sink())
    assert "sealed" not in await world.manifests.export(VIEWER)
    assert "sealed" in await world.manifests.export(ADMIN)


def test_kinds_with_secret_fields_are_those_of_this_module() -> None:
    """A kind that gains a secret field must have `ManifestKind.secrets`, and a test here."""
    kinds = all_kinds(manifest_world().operations)
    found = {kind.name for kind in kinds if SpecCodec(type(kind)).secret_names}
    assert found == {
        "GitRepository", "HelmRepository", "OCIRepository", "Secret", "Context", "Pipeline",
        "NotificationSink",
    }  # fmt: skip


PROXY = "http://proxy.example.org:3128"
PLAIN_HTTP = "http://git.example.org/plain.git"


def signed_in(url: str = PLAIN_HTTP, **to: str) -> Any:
    """A password that is sealed for a repository, and for what it is sent through."""
    return sealed("GitRepository", url, "password", PASSWORD, **to)


@pytest.mark.parametrize(
    "route",
    [
        {"proxy": PROXY},
        {"authority": "-----BEGIN CERTIFICATE-----"},
        {"proxy": PROXY, "authority": "-----BEGIN CERTIFICATE-----"},
    ],
)
async def test_a_sealed_password_is_sent_by_no_other_route_than_its_own(
    route: dict[str, str],
) -> None:
    """Neither for a new repository, nor for one that has the route already."""
    spec = {"username": "ci", "password": signed_in()}
    stolen = document("GitRepository", PLAIN_HTTP, spec | route)
    (problem,) = (await manifest_world().apply(stolen)).problems
    assert "was not sealed for this field" in problem.message
    assert PASSWORD not in problem.message

    own = document("GitRepository", PLAIN_HTTP, {"username": "ci", "password": "own", **route})
    world = await applied(own)
    for given in (spec, spec | route):
        later = document("GitRepository", PLAIN_HTTP, given)
        (problem,) = (await world.apply(later, force=True)).problems
        assert "was not sealed for this field" in problem.message
    (row,) = await world.memory.rows(RepositoryStore)
    assert world.operations[RepositoryOperations].secrets_of(row)["password"] == "own"


async def test_a_password_that_is_sealed_for_its_route_is_used_and_exported() -> None:
    spec = {"username": "ci", "proxy": PROXY, "password": signed_in(proxy=PROXY)}
    world = await applied(document("GitRepository", PLAIN_HTTP, spec))
    (row,) = await world.memory.rows(RepositoryStore)
    assert world.operations[RepositoryOperations].secrets_of(row)["password"] == PASSWORD
    assert "sealed: v1." in await world.export("GitRepository")


async def test_a_sealed_route_is_opened_before_the_password() -> None:
    route = sealed("GitRepository", PLAIN_HTTP, "proxy", PROXY)
    spec = {"username": "ci", "proxy": route, "password": signed_in(proxy=PROXY)}
    world = await applied(document("GitRepository", PLAIN_HTTP, spec))
    (row,) = await world.memory.rows(RepositoryStore)
    assert world.operations[RepositoryOperations].secrets_of(row)["proxy"] == PROXY
    assert (await world.export("GitRepository")).count("sealed: v1.") == 2


async def test_a_change_beside_a_plain_user_name_keeps_the_sealed_password() -> None:
    spec = {"username": "ci", "password": signed_in()}
    world = await applied(document("GitRepository", PLAIN_HTTP, spec))
    changed = await world.apply(document("GitRepository", PLAIN_HTTP, spec | {"submodules": True}))
    assert changed.problems == ()
    (row,) = await world.memory.rows(RepositoryStore)
    secrets = world.operations[RepositoryOperations].secrets_of(row)
    assert (secrets["username"], secrets["password"], row.submodules) == ("ci", PASSWORD, True)


async def test_a_repository_gets_a_proxy_with_the_password_that_it_has() -> None:
    """The document names the password with each apply; without it, the proxy is refused."""
    spec = {"username": "ci", "password": PASSWORD}
    world = await applied(document("GitRepository", PLAIN_HTTP, spec))
    without = document("GitRepository", PLAIN_HTTP, {"proxy": PROXY})
    (problem,) = (await world.apply(without, manager="other")).problems
    assert "must be given again when the proxy" in problem.message
    await world.apply(document("GitRepository", PLAIN_HTTP, spec | {"proxy": PROXY}))
    (row,) = await world.memory.rows(RepositoryStore)
    secrets = world.operations[RepositoryOperations].secrets_of(row)
    assert (secrets["password"], secrets["proxy"]) == (PASSWORD, PROXY)
