"""Problems name the fields of documents, and labels select what documents describe."""

import pytest

from controlplane.access.operations.role_bindings import RoleBindings
from controlplane.access.operations.roles import Roles
from controlplane.access.operations.trust_rules import TrustRules
from controlplane.authorization import BUILT_IN, INSTALLATION
from controlplane.platform.labels import parse_selector
from tests.fakes.actors import ADMIN
from tests.fakes.manifest_world import ManifestWorld, document, manifest_world

REPOSITORY = "https://git.example.org/fleet.git"


def cluster(name: str, **spec: object) -> str:
    return document("Cluster", name, spec)


def service(name: str, **spec: object) -> str:
    given = {"namespace": "shop", "repository": REPOSITORY, "folder": name, **spec}
    return document("Service", name, given, cluster="eu-1")


@pytest.fixture
def world() -> ManifestWorld:
    return manifest_world()


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        (cluster("EU_1"), "metadata.name", "'EU_1' is not a valid name"),
        (document("GitRepository", "ext::sh"), "metadata.name", "the repository URL"),
        (document("GitRepository", f"{REPOSITORY}x", {"httpsPath": "javascript:alert(1)"}),
         "spec.httpsPath", "must begin with https:// or http://"),
        (document("OCIRepository", "oci://r.example.org/x/"), "metadata.name", "write the URL as"),
        (document("Service", "web", {"repository": REPOSITORY}, cluster="eu-1"),
         "spec.namespace", "is required"),
        (service("WEB"), "metadata.name", "'WEB' is not a valid name"),
        (service("web", ref="a b"), "spec.ref", "'a b' is not a branch"),
        (service("web", folder="../x"), "spec.folder", "'../x' leaves the repository"),
        (service("web", options={"waveTimeoutSeconds": -1}), "spec.options.waveTimeoutSeconds",
         "must be 0 to 86,400 s, not -1"),
        (service("web", options={"namespaceLabels": {"a" * 300: "x"}}),
         "spec.options.namespaceLabels", "aaa"),
        (document("GlobalService", "g", {"template": {"repository": REPOSITORY, "ref": "a b"}}),
         "spec.template.ref", "'a b' is not a branch"),
        (document("RoleBinding", "b", {"role": "viewer", "subject": {}}), "spec.subject", ""),
        (document("NotificationSink", "s", {"settings": {"kind": "WEBHOOK", "webhook": {
            "url": "ftp://x"}}}), "spec.settings.webhook.url", "must be a URL"),
        (document("Role", "viewer"), "", "the role 'viewer' is built in"),
        (document("ServiceAccount", "x"), "metadata.name", ""),
        (document("ClusterGroup", "g", {"freezeReason": "x"}), "spec.freezeReason", "needs frozen"),
    ],
)  # fmt: skip
async def test_problems_name_the_field_of_the_document(
    world: ManifestWorld, text: str, field: str, message: str
) -> None:
    await world.apply(cluster("eu-1") + document("GitRepository", REPOSITORY))
    (problem,) = (await world.apply(text)).problems
    assert problem.field.startswith(field), problem
    assert problem.message.startswith(message), problem


async def test_labels_select_roles_bindings_and_trust_rules(world: ManifestWorld) -> None:
    rules = [{"verbs": ["READ"], "kinds": ["CLUSTER"]}]
    account, issuer = "ci@example.org", "https://ci.example.org"
    trusted = {"serviceAccount": account, "issuer": issuer, "audience": "a", "subject": "b"}
    text = document("ServiceAccount", account)
    for team in ("shop", "bank"):
        labels = {"team": team}
        holder = {"role": team, "subject": {"user": account}}
        text += document("Role", team, {"rules": rules}, labels=labels)
        text += document("RoleBinding", team, holder, labels=labels)
        text += document("TrustedIssuer", team, trusted, labels=labels)
    assert (await world.apply(text)).problems == ()
    roles, trust = world.operations[Roles], world.operations[TrustRules]
    bindings = world.operations[RoleBindings]
    for selector, names in (("team=shop", ["shop"]), ("team", ["bank", "shop"]), ("team=x", [])):
        wanted = parse_selector(selector)
        assert sorted(role.name for role in await roles.all(ADMIN, wanted)) == names
        views = await bindings.all(ADMIN, INSTALLATION, wanted)
        assert sorted(view.row.name or "" for view in views) == names
        assert sorted(rule.name for rule in await trust.all(ADMIN, wanted)) == names
    others = [role.name for role in await roles.all(ADMIN, parse_selector("team!=shop"))]
    assert others == [*BUILT_IN, "bank"]


async def test_a_wrong_document_of_an_existing_resource_hides_no_other_problem(
    world: ManifestWorld,
) -> None:
    await world.apply(cluster("eu-1") + document("GitRepository", REPOSITORY))
    plan = await world.apply(cluster("eu-1", tagz={}) + service("web", ref="a b"))
    assert [problem.field for problem in plan.problems] == ["spec.tagz", "spec.ref"]


async def test_a_manager_of_labels_alone_owns_no_field(world: ManifestWorld) -> None:
    await world.apply(document("Cluster", "eu-1", labels={"team": "shop"}), manager="label")
    export = await world.manifests.export(ADMIN, ["Cluster"], managed_fields=True)
    assert "team: shop" in export
    assert "managedFields" not in export
