"""Exports can be applied to an empty installation, and give the same export there."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from controlplane.access.model.users import UserKind
from controlplane.access.operations.role_bindings import BindingDraft, RoleBindings
from controlplane.access.ports import RoleBindingStore, UserStore
from controlplane.authorization import INSTALLATION, ResourceKind
from controlplane.authorization.resources import scope_of
from controlplane.manifests.model.plan import ManifestAction
from controlplane.repositories.ports import RepositoryStore
from controlplane.secrets.ports import SecretVersionStore
from core.sealed_values import seal_value
from tests.fakes.actors import ADMIN
from tests.fakes.clock import START
from tests.fakes.manifest_examples import EVERYTHING, REPOSITORY, WITHOUT_SECRETS
from tests.fakes.manifest_world import document, manifest_world

EAST = timezone(timedelta(hours=2))
NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
TEXTS = st.text(
    st.characters(codec="ascii", categories=("L", "N", "P", "Z")), min_size=1, max_size=20
)
WORDS = st.dictionaries(NAMES, TEXTS.filter(str.strip), max_size=3)


async def test_an_export_applies_to_an_empty_installation_and_gives_itself() -> None:
    first, second = manifest_world(), manifest_world()
    assert (await first.apply(WITHOUT_SECRETS)).problems == ()
    exported = await first.export()
    assert (await second.apply(exported)).problems == ()
    assert await second.export() == exported


async def test_an_export_differs_in_nothing_from_its_installation() -> None:
    world = manifest_world()
    assert (await world.apply(EVERYTHING)).problems == ()
    plan = await world.apply(await world.export(), manager="other", dry_run=True)
    assert plan.problems == ()
    assert {item.action for item in plan.items} == {ManifestAction.UNCHANGED}


_SECRET = {"NotificationSink": {"url"}}
"""Fields of the examples that nobody reads back."""


def _lost(applied: Any, shown: Any, secret: frozenset[str], path: str = "") -> Iterator[str]:
    """The paths of values that differ. Lists that a kind sorts come in any order."""
    if isinstance(applied, dict) and isinstance(shown, dict):
        for name in applied.keys() - secret:
            yield from _lost(applied[name], shown.get(name), secret, f"{path}.{name}")
    elif isinstance(applied, list) and isinstance(shown, list) and len(applied) == len(shown):
        remaining = list(shown)
        for number, item in enumerate(applied):
            fits = [other for other in remaining if not [*_lost(item, other, secret)]]
            if fits:
                remaining.remove(fits[0])
            else:
                yield f"{path}[{number}]"
    elif applied != shown:
        yield path


async def test_a_resource_shows_every_field_that_was_applied() -> None:
    world = manifest_world()
    assert (await world.apply(EVERYTHING)).problems == ()
    for applied in yaml.safe_load_all(EVERYTHING):
        kind, metadata = applied["kind"], applied["metadata"]
        key = "/".join(filter(None, (metadata.get("cluster"), metadata["name"])))
        shown = await world.manifests.document(ADMIN, kind, key)
        secret = frozenset(_SECRET.get(kind, ()))
        assert [*_lost(applied.get("spec", {}), shown.get("spec", {}), secret)] == [], key


async def test_every_kind_has_an_example_here() -> None:
    world = manifest_world()
    missing = [kind for kind in world.manifests.kind_names() if f"kind: {kind}\n" not in EVERYTHING]
    assert missing == []


SPECS: dict[str, Any] = {
    "ServiceAccount": st.builds(dict, displayName=NAMES),
    "TrustedIssuer": st.builds(
        dict,
        serviceAccount=st.just("the-account@example.org"),
        issuer=NAMES.map("https://{}.example.org".format),
        audience=TEXTS.filter(str.strip),
        subject=NAMES.map("repo:{}*".format),
        claims=WORDS,
        minutes=st.integers(1, 1440),
        keys=st.sampled_from(["", "{}"]),
    ),
    "User": st.builds(dict, displayName=TEXTS.filter(str.strip)),
    "Group": st.builds(dict, description=TEXTS),
    "Role": st.builds(
        dict,
        description=TEXTS,
        rules=st.lists(
            st.builds(
                dict,
                verbs=st.sampled_from([["READ"], ["READ", "WRITE"]]),
                kinds=st.sampled_from([["SERVICE"], ["CLUSTER", "PIPELINE"]]),
            ),
            max_size=2,
        ),
    ),
    "Project": st.builds(
        dict, description=TEXTS, fence=st.builds(dict, unrestricted=st.just(True))
    ),
    "Cluster": st.builds(dict, tags=WORDS, protect=st.booleans()),
    "ClusterGroup": st.builds(dict, description=TEXTS.filter(str.strip), tags=WORDS),
    "AgentSettings": st.builds(
        lambda version, **rest: version | rest,
        version=st.sampled_from([{}, {"version": "1.2.0", "image": "towline:1.2.0"}]),
        selector=st.builds(dict, tags=WORDS.filter(bool)),
        priority=st.integers(-1000, 1000),
        size=st.sampled_from(["SMALL", "MEDIUM", "LARGE"]),
        agentValues=NAMES,
        agentValuesTemplated=st.booleans(),
    ),
    "GitRepository": st.builds(dict, submodules=st.booleans()),
    "HelmRepository": st.builds(dict, viaCluster=st.just("the-cluster")),
    "OCIRepository": st.builds(dict, httpsPath=st.just("https://git.example.org/shop")),
    "Secret": st.builds(
        lambda value, **rest: value | rest,
        value=st.one_of(
            st.just({"source": {"kind": "ENVIRONMENT", "key": "TOWLINE_SECRET_DATABASE"}}),
            st.builds(
                dict,
                generate=st.builds(
                    dict,
                    length=st.integers(16, 64),
                    alphabet=st.sampled_from(["ALPHANUMERIC", "PRINTABLE", "HEX"]),
                ),
            ),
        ),
        rotation=st.builds(dict, batch=st.integers(1, 1000), automatic=st.booleans()),
    ),
    "Context": st.builds(dict, values=WORDS),
    "Service": st.builds(
        dict,
        namespace=st.just("shop"),
        repository=st.just(REPOSITORY),
        folder=st.sampled_from(["", "a", "a/b", "./c/"]),
        configuration=WORDS,
        templated=st.booleans(),
        exports=st.dictionaries(
            NAMES.map(lambda name: name.replace("-", "_")), TEXTS, max_size=3
        ).map(lambda found: [{"name": name, "value": value} for name, value in found.items()]),
        imports=st.just([{"alias": "a", "service": "the-cluster/the-service", "export": "host"}]),
        options=st.builds(
            dict,
            drift=st.sampled_from(["HEAL", "REPORT", "IGNORE"]),
            namespaceLabels=WORDS,
            deletionBudget=st.integers(0, 9),
        ),
    ),
    "GlobalService": st.builds(
        dict,
        selector=st.builds(
            dict,
            tags=WORDS.filter(bool),
            matchExpressions=st.lists(
                st.one_of(
                    st.builds(
                        dict, key=NAMES, operator=st.sampled_from(["Exists", "DoesNotExist"])
                    ),
                    st.builds(
                        dict,
                        key=NAMES,
                        operator=st.sampled_from(["In", "NotIn"]),
                        values=st.lists(NAMES, min_size=1, max_size=3),
                    ),
                ),
                max_size=2,
            ),
        ),
        template=st.builds(
            dict,
            name=NAMES,
            namespace=NAMES,
            repository=st.just(REPOSITORY),
            folder=NAMES,
        ),
        onLeave=st.sampled_from(["DELETE", "DETACH"]),
    ),
    "ServiceSet": st.builds(
        dict,
        generator=st.builds(
            dict, folders=st.builds(dict, repository=st.just(REPOSITORY), pattern=NAMES)
        ),
        template=st.builds(
            dict,
            name=st.just("${folder.name}"),
            namespace=NAMES,
            repository=st.just(REPOSITORY),
            folder=st.just("${folder.path}"),
        ),
    ),
    "ManagedNamespace": st.builds(dict, namespaceLabels=WORDS),
    "Pipeline": st.builds(
        dict,
        stages=st.just([{"name": "only", "services": ["the-cluster/the-service"]}]),
    ),
    "RoleBinding": st.builds(
        dict,
        role=st.sampled_from(["viewer", "editor"]),
        subject=st.sampled_from(
            [{"user": "the-account@example.org"}, {"group": "the-group"}],
        ),
        scope=st.sampled_from(
            [
                {},
                {"cluster": "the-cluster"},
                {"service": "the-cluster/the-service"},
                {"repository": REPOSITORY},
            ]
        ),
        expiresAt=st.one_of(
            st.none(),
            st.datetimes(datetime(2000, 1, 1), timezones=st.sampled_from([UTC, EAST])).map(
                datetime.isoformat
            ),
        ),
        reason=st.one_of(st.just(""), TEXTS),
    ),
    "ConfigurationSource": st.builds(
        dict,
        repository=st.just(REPOSITORY),
        folder=st.uuids().map(str),
        serviceAccount=st.just("the-account@example.org"),
        mode=st.sampled_from(["AUTOMATIC", "APPROVAL"]),
        prune=st.booleans(),
        deletionBudget=st.integers(0, 9),
        drift=st.sampled_from(["HEAL", "REPORT", "IGNORE"]),
        intervalSeconds=st.integers(30, 600),
        suspended=st.booleans(),
    ),
    "ClusterSource": st.builds(
        dict,
        cluster=st.just("the-cluster"),
        serviceAccount=st.just("the-account@example.org"),
        inventory=st.sampled_from(["CLUSTER_API", "CLUSTER_PROFILE"]),
        namespace=st.sampled_from(["", "fleet"]),
        selector=st.sampled_from(["", "env=prod", "env in (prod,test),!old"]),
        nameTemplate=st.sampled_from(["{name}", "{namespace}-{name}", "x-{name}"]),
        tags=st.dictionaries(st.sampled_from(["env", "tier"]), st.just("x")),
        tagLabels=st.sampled_from([[], ["env"], ["example.org/env", "tier"]]),
        gone=st.sampled_from(["KEEP", "DELETE"]),
        maxClusters=st.integers(1, 5000),
        maxDeletions=st.integers(0, 9),
        intervalSeconds=st.integers(10, 600),
        suspended=st.booleans(),
    ),
    "NotificationRule": st.builds(dict, events=st.just(["service.failed"]), sinks=st.just([])),
}
"""Specs of kinds. A sink has a secret that no export contains."""
_FORMS = {
    "GitRepository": "https://git.example.org/{}.git",
    "HelmRepository": "https://charts.example.org/{}",
    "OCIRepository": "oci://registry.example.org/{}",
    "ServiceAccount": "{}@example.org",
    "User": "{}@people.example.org",
}
_THE_SERVICE = {
    "namespace": "shop",
    "repository": REPOSITORY,
    "folder": "a",
    "exports": [{"name": "host", "value": "db"}],
}
_REFERRED = (
    document("ServiceAccount", "the-account@example.org")
    + document("Group", "the-group")
    + document("GitRepository", REPOSITORY)
    + document("Cluster", "the-cluster")
    + document("Service", "the-service", _THE_SERVICE, cluster="the-cluster")
)


def _documents(kind: str) -> Any:
    found = st.dictionaries(NAMES, SPECS[kind], max_size=2)
    return found.map(lambda specs: {_FORMS.get(kind, "{}").format(n): s for n, s in specs.items()})


async def test_a_sealed_value_round_trips_and_opens_again() -> None:
    first, second = manifest_world(), manifest_world()
    public = first.memory.context.sealer.manifest_key.public
    sealed = seal_value(public, "default", "db", b"canary-51c5-otter")
    assert (await first.apply(document("Secret", "db", {"sealedValue": sealed}))).problems == ()
    exported = await first.export()
    assert sealed in exported
    assert (await second.apply(exported)).problems == ()
    assert await second.export() == exported
    (version,) = await second.memory.rows(SecretVersionStore)
    opened = second.memory.context.sealer.open(version.sealed or b"", version.context)
    assert opened == b"canary-51c5-otter"

    moved = document("Secret", "other", {"sealedValue": sealed})
    (problem,) = (await second.apply(moved)).problems
    assert "was not sealed for the secret 'other'" in problem.message


async def test_bindings_without_a_name_are_exported_under_one_that_stays() -> None:
    """Also if the same role is bound again without a name, as at the start of an installation."""
    people = document("User", "ada@example.org") + document("Group", "ops")
    people += document("GitRepository", REPOSITORY)
    first, second = manifest_world(), manifest_world()
    assert (await first.apply(people)).problems == ()
    (repository,) = await first.memory.rows(RepositoryStore)
    bindings = RoleBindings(first.memory.context)
    for draft in (
        BindingDraft("editor", INSTALLATION, user="ada@example.org", reason="on call"),
        BindingDraft("viewer", scope_of(ResourceKind.REPOSITORY, repository.id), group="ops"),
        BindingDraft("viewer", INSTALLATION, group="ops", expires_at=START + timedelta(days=1)),
    ):
        await bindings.create(ADMIN, draft)
    exported = await first.export()
    names = [line.split()[1] for line in exported.splitlines() if "editor-ada" in line]
    assert exported.count("kind: RoleBinding") == 2 and "reason: on call" in exported
    plan = await first.apply(exported, manager="git", dry_run=True)
    assert {item.action for item in plan.items} == {ManifestAction.UNCHANGED}

    assert (await second.apply(people)).problems == ()
    await RoleBindings(second.memory.context).create(
        ADMIN, BindingDraft("editor", INSTALLATION, user="ada@example.org")
    )
    assert (await second.apply(exported)).problems == ()
    assert await second.export() == exported
    assert {row.name for row in await second.memory.rows(RoleBindingStore)} >= set(names)
    third = manifest_world()
    assert (await third.apply(exported)).problems == ()
    await RoleBindings(third.memory.context).create(
        ADMIN, BindingDraft("editor", INSTALLATION, user="ada@example.org")
    )
    assert await third.export() == exported


async def test_a_person_keeps_the_address_and_is_disabled_on_deletion() -> None:
    world = manifest_world()
    ada = document("User", "ada@example.org", {"displayName": "Ada"})
    await world.apply(ada)
    changed = document("User", "ada@example.org", {"displayName": "Ada L."})
    await world.apply(changed)
    (row,) = await world.memory.rows(UserStore)
    assert (row.name, row.kind, row.password) == ("Ada L.", UserKind.PERSON, None)
    (problem,) = (await world.apply(document("ServiceAccount", "ada@example.org"))).problems
    assert "already exists" in problem.message
    await world.manifests.delete(ADMIN, [world.source(changed)])
    (row,) = await world.memory.rows(UserStore)
    assert row.disabled_at is not None and await world.export("User") == ""
    (problem,) = (await world.apply(ada)).problems
    assert "already exists" in problem.message


def test_every_kind_without_secrets_is_generated() -> None:
    kinds = set(manifest_world().manifests.kind_names())
    assert kinds - SPECS.keys() == {"NotificationSink"}


@given(st.fixed_dictionaries({kind: _documents(kind) for kind in SPECS}))
@settings(max_examples=30, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_generated_documents_round_trip(generated: dict[str, dict[str, Any]]) -> None:
    text = _REFERRED + "".join(
        document(kind, name, spec, **({"cluster": "the-cluster"} if kind == "Service" else {}))
        for kind, specs in generated.items()
        for name, spec in specs.items()
    )

    async def check() -> None:
        first, second = manifest_world(), manifest_world()
        assert (await first.apply(text)).problems == ()
        exported = await first.export()
        plan = await first.apply(exported, manager="other", dry_run=True)
        assert {item.action for item in plan.items} <= {ManifestAction.UNCHANGED}
        assert (await second.apply(exported)).problems == ()
        assert await second.export() == exported

    asyncio.run(check())
