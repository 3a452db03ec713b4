"""Exports can be applied to an empty installation, and give the same export there."""

import asyncio
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from controlplane.manifests.model.plan import ManifestAction
from tests.fakes.manifest_world import document, manifest_world

REPOSITORY = "https://git.example.org/fleet.git"
SINK = {"settings": {"kind": "WEBHOOK", "webhook": {"url": "https://hooks.example.org/x"}}}
EVERYTHING = "".join(
    [
        document("ServiceAccount", "ci@example.org", {"displayName": "CI"}),
        document("Group", "devs", {"description": "Developers", "members": ["ci@example.org"]}),
        document(
            "Role",
            "deployer",
            {
                "description": "Deploys",
                "rules": [{"verbs": ["READ", "WRITE"], "kinds": ["SERVICE"]}],
                "kubernetes": {"groups": ["deployers"]},
            },
        ),
        document(
            "Project",
            "shop",
            {
                "description": "The shop",
                "fence": {"unrestricted": True},
                "bindings": {
                    "deployer": {"groups": ["devs"]},
                    "viewer": {"users": ["ci@example.org"]},
                },
            },
        ),
        document("Cluster", "eu-1", {"tags": {"env": "prod"}, "protect": True}, project="shop"),
        document("Cluster", "us-1", {"displayName": "US One"}),
        document("ClusterGroup", "prod", {"tags": {"env": "prod"}, "clusters": ["us-1"]}),
        document("GitRepository", REPOSITORY, {"submodules": True}),
        document("HelmRepository", "https://charts.example.org/stable", {"viaCluster": "eu-1"}),
        document(
            "Secret",
            "database",
            {"source": {"kind": "ENVIRONMENT", "key": "TOWLINE_SECRET_DATABASE"}},
        ),
        document(
            "Context",
            "common",
            {
                "values": {"domain": "example.org", "replicas": 3},
                "overrides": [{"cluster": "eu-1", "values": {"replicas": 5}}],
            },
        ),
        document(
            "Service",
            "database",
            {
                "namespace": "shop",
                "repository": REPOSITORY,
                "folder": "database",
            },
            cluster="us-1",
        ),
        document(
            "Service",
            "web",
            {
                "namespace": "shop",
                "repository": REPOSITORY,
                "ref": "v2",
                "folder": "web",
                "configuration": {"color": "blue"},
                "options": {
                    "drift": "REPORT",
                    "ignored": [{"kind": "Deployment", "pointers": ["/spec/replicas"]}],
                },
                "verification": {"soakS": 60},
                "dependencies": ["database"],
                "contexts": ["common"],
                "sources": [{"repository": REPOSITORY, "folder": "base"}],
            },
            cluster="us-1",
        ),
        document(
            "Service",
            "redis",
            {
                "namespace": "shop",
                "helm": {
                    "repository": "https://charts.example.org/stable",
                    "chart": "redis",
                    "version": "1.2.3",
                    "values": "replicas: 2\n",
                },
            },
            cluster="us-1",
        ),
        document(
            "GlobalService",
            "agent",
            {
                "selector": {"tags": {"env": "prod"}, "groups": ["prod"], "excluded": ["us-1"]},
                "template": {
                    "name": "agent",
                    "namespace": "agents",
                    "repository": REPOSITORY,
                    "ref": "main",
                    "folder": "agent",
                },
                "onLeave": "DELETE",
                "deletionBudget": 3,
            },
        ),
        document(
            "ServiceSet",
            "apps",
            {
                "generator": {"folders": {"repository": REPOSITORY, "pattern": "apps/*"}},
                "template": {
                    "name": "${folder.name}",
                    "namespace": "apps",
                    "repository": REPOSITORY,
                    "folder": "${folder.path}",
                },
            },
        ),
        document(
            "ManagedNamespace",
            "teams",
            {"labels": {"team": "shop"}, "quota": {"requests.cpu": "4"}},
            project="shop",
        ),
        document(
            "Pipeline",
            "web",
            {
                "stages": [
                    {"name": "staging", "services": ["us-1/database"]},
                    {"name": "production", "services": ["us-1/web"], "verification": {"soakS": 30}},
                ],
                "edges": [
                    {
                        "source": "staging",
                        "target": "production",
                        "gates": [{"name": "wait", "rule": {"kind": "APPROVAL"}}],
                    }
                ],
            },
        ),
        document(
            "NotificationSink",
            "hook",
            SINK,
        ),
        document("NotificationRule", "failures", {"events": ["service.failed"], "sinks": ["hook"]}),
    ]
)


# The address of this sink is a secret, which no export contains.
WITHOUT_SECRETS = EVERYTHING.partition(document("NotificationSink", "hook", SINK))[0]
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


async def test_every_kind_has_an_example_here() -> None:
    world = manifest_world()
    missing = [kind for kind in world.manifests.kind_names() if f"kind: {kind}\n" not in EVERYTHING]
    assert missing == []


@given(
    st.dictionaries(NAMES, st.builds(dict, tags=WORDS, protect=st.booleans()), max_size=4),
    st.dictionaries(NAMES, st.builds(dict, values=WORDS), max_size=3),
    st.dictionaries(
        NAMES,
        st.builds(
            dict,
            folder=st.sampled_from(["", "a", "a/b", "./c/"]),
            configuration=WORDS,
            templated=st.booleans(),
            options=st.builds(
                dict,
                drift=st.sampled_from(["HEAL", "REPORT", "IGNORE"]),
                namespaceLabels=WORDS,
                deletionBudget=st.integers(0, 9),
            ),
        ),
        max_size=4,
    ),
)
@settings(max_examples=5, phases=[Phase.explicit, Phase.generate])
def test_generated_documents_round_trip(
    clusters: dict[str, Any], contexts: dict[str, Any], services: dict[str, Any]
) -> None:
    text = document("GitRepository", REPOSITORY) + document("Cluster", "the-cluster")
    text += "".join(document("Cluster", name, spec) for name, spec in clusters.items())
    text += "".join(document("Context", name, spec) for name, spec in contexts.items())
    common = {"namespace": "shop", "repository": REPOSITORY}
    for name, spec in services.items():
        text += document("Service", name, common | spec, cluster="the-cluster")

    async def check() -> None:
        first, second = manifest_world(), manifest_world()
        assert (await first.apply(text)).problems == ()
        exported = await first.export()
        plan = await first.apply(exported, manager="other", dry_run=True)
        assert {item.action for item in plan.items} <= {ManifestAction.UNCHANGED}
        assert (await second.apply(exported)).problems == ()
        assert await second.export() == exported

    asyncio.run(check())
