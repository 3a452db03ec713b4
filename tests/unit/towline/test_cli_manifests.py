"""Reading our own kinds, and bringing the control plane to what they say."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from core.errors import Conflict, Invalid, NotFound
from tests.fakes.api import FakeApi
from towline.cli.apply.manifests import KINDS, Manifest, read_manifests
from towline.cli.apply.plan import ManifestPlanner
from towline.cli.clusters import generated as cluster_api
from towline.cli.pipelines import generated as pipeline_api
from towline.cli.program import app
from towline.cli.repositories import generated as repository_api
from towline.cli.services import generated as service_api
from towline.generated_inputs import StageRolloutAttributes

URL = "https://git.example/shop.git"
REPOSITORY = f"apiVersion: towline/v1\nkind: Repository\nurl: {URL}\n"
CLUSTER = "apiVersion: towline/v1\nkind: Cluster\nhandle: dev\ntags: {env: dev}\n"
SERVICE = f"""apiVersion: towline/v1
kind: Service
cluster: dev
name: web
namespace: shop
repository: {URL}
git: {{ref: main, folder: deploy/dev}}
configuration: {{replicas: "2"}}
"""
PIPELINE = """apiVersion: towline/v1
kind: Pipeline
name: shop
stages:
  - {name: dev, services: [dev/web]}
  - {name: prod, services: [prod/web]}
edges:
  - {from: dev, to: prod, gates: [{name: release, type: APPROVAL}]}
"""
METRIC = PIPELINE.replace(
    "type: APPROVAL", "type: METRIC, metric: {url: 'http://p', query: up, threshold: 1.5}"
)
CONTEXT = "apiVersion: towline/v1\nkind: Context\nname: network\nvalues: {{sizes: [{}]}}\n"
FOUND_CLUSTER = {"id": "c1", "handle": "dev", "tags": [{"name": "env", "value": "dev"}]}
FOUND_SERVICE = {
    "id": "s1",
    "name": "web",
    "namespace": "shop",
    "cluster": {"handle": "dev"},
    "repository": {"id": "g1", "url": URL},
    "git": {"ref": "main", "folder": "deploy/dev"},
    "kustomize": None,
    "configuration": [{"name": "replicas", "value": "2"}],
    "protect": False,
}


def found_pipeline(quorum: int = 1) -> dict[str, Any]:
    def stage(name: str) -> dict[str, Any]:
        service = {"id": f"id of {name}/web"}
        rollout = dict.fromkeys(StageRolloutAttributes.__annotations__)
        chosen = {"serviceNames": [], "selector": None, "verification": None}
        return {"name": name, "services": [{"service": service}], "rollout": rollout, **chosen}

    settings = json.dumps({"quorum": quorum} if quorum > 1 else {})
    gate = {"name": "release", "type": "APPROVAL", "settings": settings}
    edge = {"from": {"name": "dev"}, "to": {"name": "prod"}, "gates": [gate]}
    return {"id": "p1", "name": "shop", "stages": [stage("dev"), stage("prod")], "edges": [edge]}


def found_service(cluster: str, name: str) -> dict[str, Any]:
    return {"serviceDeployment": {"id": f"id of {cluster}/{name}"}}


def manifests(tmp_path: Path, *texts: str) -> list[Manifest]:
    path = tmp_path / "fleet.yaml"
    path.write_text("---\n".join(texts))
    return read_manifests(path)


def apply(tmp_path: Path, api: FakeApi, text: str, *, dry_run: bool = False) -> list[str]:
    (manifest,) = manifests(tmp_path, text)
    return ManifestPlanner(api, dry_run=dry_run).apply(manifest)


def test_documents_come_in_the_order_in_which_they_need_each_other(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.yaml").write_text(PIPELINE + "---\n" + SERVICE)
    (folder / "deep" / "b.yml").write_text(CLUSTER + "---\n" + REPOSITORY + "---\n")
    (folder / "notes.txt").write_text("not: ours")
    found = read_manifests(folder)
    kinds = [one.kind for one in found]
    assert kinds == sorted(kinds, key=KINDS.index)
    assert [one.label for one in found] == [
        f"Repository {URL}",
        "Cluster dev",
        "Service dev/web",
        "Pipeline shop",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [", "is not YAML"),
        ("kind: Cluster", "document 1: apiVersion is not towline/v1"),
        (
            "apiVersion: towline/v1\nkind: Pod",
            "unknown kind 'Pod'; expected one of Repository, HelmRepository",
        ),
        (CLUSTER + "colour: red", "Cluster has no field colour"),
        (CLUSTER.replace("handle: dev", "name: dev"), "Cluster requires the field handle"),
        (CLUSTER.replace("{env: dev}", "{env: 7}"), "Cluster.tags.env is not text"),
        (CLUSTER + "protect: 1", "Cluster.protect is not true or false"),
        (SERVICE.replace("ref: main", "branch: main"), "Service.git has no field branch"),
        (PIPELINE.replace("[prod/web]", "prod/web"), "stages\\[1\\].services is not a list"),
        (PIPELINE.replace("type: APPROVAL", "quorum: yes"), "gates\\[0\\].quorum is not a whole"),
        (METRIC.replace("1.5", ".nan"), "metric.threshold is nan; use a finite number"),
        (METRIC.replace("1.5", "-.inf"), "metric.threshold is -inf; use a finite number"),
        (METRIC.replace("1.5", "high"), "metric.threshold is not a number"),
        (CONTEXT.format(".nan"), "Context.values.sizes.0 is nan; use a finite number"),
        (CONTEXT.format("&a [*a]"), "document 1 contains itself"),
        ("", "contains no towline/v1 documents"),
        ("- a", "apiVersion is not"),
    ],
)
def test_invalid_manifests_are_refused_with_their_place(
    tmp_path: Path, text: str, sentence: str
) -> None:
    with pytest.raises(Invalid, match=sentence):
        manifests(tmp_path, text)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="No such file"):
        read_manifests(tmp_path / "none.yaml")


def test_several_files_and_standard_input_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.yaml").write_text(SERVICE)
    (tmp_path / "b.yaml").write_text(CLUSTER)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(REPOSITORY.encode())))
    found = read_manifests(tmp_path / "a.yaml", tmp_path / "b.yaml", Path("-"))
    assert [one.kind for one in found] == ["Repository", "Cluster", "Service"]


def test_each_given_path_has_documents(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CLUSTER)
    (tmp_path / "b.yaml").write_text("# nothing yet")
    with pytest.raises(Invalid, match="b.yaml contains no towline/v1 documents"):
        read_manifests(tmp_path / "a.yaml", tmp_path / "b.yaml")


def test_apply_takes_the_option_several_times(tmp_path: Path) -> None:
    """The last one won: the others were lost without a word."""
    (tmp_path / "a.yaml").write_text("apiVersion: towline/v1\nkind: Pod")
    (tmp_path / "b.yaml").write_text(CLUSTER)
    files = ["-f", str(tmp_path / "a.yaml"), "-f", str(tmp_path / "b.yaml")]
    refused = CliRunner().invoke(app, ["--url", "http://127.0.0.1:1", "apply", *files])
    assert "a.yaml, document 1: unknown kind 'Pod'" in str(refused.exception)


def test_a_missing_service_is_created_with_every_attribute(tmp_path: Path) -> None:
    api = FakeApi(
        {
            repository_api.REPOSITORY: {"gitRepository": {"id": "g1"}},
            service_api.CREATE_SERVICE: {"createServiceDeployment": {"id": "s1"}},
        }
    )
    assert apply(tmp_path, api, SERVICE) == ["+ Service dev/web created"]
    assert api.sent(service_api.CREATE_SERVICE) == [
        {
            "cluster": "dev",
            "attributes": {
                "name": "web",
                "namespace": "shop",
                "repositoryId": "g1",
                "git": {"ref": "main", "folder": "deploy/dev"},
                "configuration": [{"name": "replicas", "value": "2"}],
            },
        }
    ]


def test_a_new_cluster_tells_its_deploy_token_once(tmp_path: Path) -> None:
    made = {"createCluster": {"id": "c1", "deployToken": "twa_x"}}
    api = FakeApi({cluster_api.CREATE_CLUSTER: made})
    assert apply(tmp_path, api, CLUSTER) == [
        "+ Cluster dev created",
        "  deploy token, shown only once: twa_x",
    ]
    (sent,) = api.sent(cluster_api.CREATE_CLUSTER)
    assert sent["attributes"]["name"] == "dev"


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        (CLUSTER, {cluster_api.CLUSTER: {"cluster": FOUND_CLUSTER}}),
        (SERVICE, {service_api.SERVICE: {"serviceDeployment": FOUND_SERVICE}}),
        (
            REPOSITORY,
            {repository_api.REPOSITORY: {"gitRepository": {"id": "g1", "signIn": None}}},
        ),
        (
            PIPELINE,
            {
                pipeline_api.PIPELINE: {"pipeline": found_pipeline()},
                service_api.SERVICE: found_service,
            },
        ),
    ],
    ids=["cluster", "service", "repository", "pipeline"],
)
def test_an_unchanged_manifest_sends_no_mutation(
    tmp_path: Path, text: str, answers: dict[str, Any]
) -> None:
    api = FakeApi(answers)
    (line,) = apply(tmp_path, api, text)
    assert line.startswith("= ") and line.endswith(" unchanged")
    assert all(document.startswith("query") for document, _ in api.asked)


def test_a_difference_is_printed_and_sent(tmp_path: Path) -> None:
    api = FakeApi(
        {
            service_api.SERVICE: {"serviceDeployment": FOUND_SERVICE},
            service_api.UPDATE_SERVICE: {"updateServiceDeployment": {"id": "s1"}},
        }
    )
    text = SERVICE.replace("ref: main", "ref: v2").replace('replicas: "2"', 'size: "3"')
    assert apply(tmp_path, api, text) == [
        "~ Service dev/web changed",
        "  git.ref: main → v2",
        "  configuration.replicas: 2 → (none)",
        "  configuration.size: (none) → 3",
    ]
    (sent,) = api.sent(service_api.UPDATE_SERVICE)
    assert sent["id"] == "s1"
    assert sent["attributes"]["configuration"] == [{"name": "size", "value": "3"}]


def test_a_changed_gate_is_printed_with_its_path(tmp_path: Path) -> None:
    api = FakeApi(
        {
            pipeline_api.PIPELINE: {"pipeline": found_pipeline(quorum=2)},
            service_api.SERVICE: found_service,
            pipeline_api.SAVE_PIPELINE: {"savePipeline": {"id": "p1"}},
        }
    )
    assert apply(tmp_path, api, PIPELINE) == [
        "~ Pipeline shop changed",
        "  edges.dev to prod.release.quorum: 2 → (none)",
    ]


def test_a_dry_run_tells_and_sends_nothing(tmp_path: Path) -> None:
    api = FakeApi({service_api.SERVICE: {"serviceDeployment": FOUND_SERVICE}})
    lines = apply(tmp_path, api, SERVICE.replace("ref: main", "ref: v2"), dry_run=True)
    assert lines == ["~ Service dev/web would be changed", "  git.ref: main → v2"]
    assert apply(tmp_path, FakeApi(), PIPELINE, dry_run=True) == [
        "+ Pipeline shop would be created"
    ]
    assert api.sent(service_api.UPDATE_SERVICE) == []


def test_immutable_fields_are_refused_before_any_mutation(tmp_path: Path) -> None:
    api = FakeApi({service_api.SERVICE: {"serviceDeployment": FOUND_SERVICE}})
    with pytest.raises(Conflict, match="namespace of a service cannot be changed"):
        apply(tmp_path, api, SERVICE.replace("namespace: shop", "namespace: other"))


def test_a_pipeline_of_unknown_services_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        apply(tmp_path, FakeApi(), PIPELINE)


def test_a_group_that_is_not_there_is_named(tmp_path: Path) -> None:
    chosen = "serviceNames: [web], rollout: {strategy: WAVES, groups: [eu]}"
    text = PIPELINE.replace("services: [dev/web]", chosen)
    with pytest.raises(NotFound, match="could not find cluster group eu"):
        apply(tmp_path, FakeApi(), text)


def test_secrets_come_from_the_environment_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("PEM\n")
    text = REPOSITORY + f"password: {{env: PASSWORD}}\nprivateKey: {{file: {tmp_path}/key}}\n"
    api = FakeApi({repository_api.CREATE_REPOSITORY: {"createGitRepository": {"id": "g1"}}})
    (manifest,) = manifests(tmp_path, text)
    ManifestPlanner(api, dry_run=False, environ={"PASSWORD": "secret"}).apply(manifest)
    (sent,) = api.sent(repository_api.CREATE_REPOSITORY)
    assert (sent["attributes"]["password"], sent["attributes"]["privateKey"]) == (
        "secret",
        "PEM\n",
    )


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("{env: NONE}", "environment variable NONE is not set"),
        ("{file: /none}", "cannot read /none"),
        ("{}", "either env or file"),
        ("{env: A, file: b}", "either env or file"),
    ],
)
def test_a_missing_secret_source_names_its_document(
    tmp_path: Path, source: str, sentence: str
) -> None:
    (manifest,) = manifests(tmp_path, REPOSITORY + f"password: {source}\n")
    with pytest.raises(Invalid, match=f"document 1: .*{sentence}"):
        ManifestPlanner(FakeApi(), dry_run=False, environ={}).apply(manifest)


def test_a_repository_is_changed_when_its_way_of_signing_in_does(tmp_path: Path) -> None:
    api = FakeApi(
        {
            repository_api.REPOSITORY: {"gitRepository": {"id": "g1", "signIn": None}},
            repository_api.UPDATE_REPOSITORY: {"updateGitRepository": {"id": "g1"}},
        }
    )
    (manifest,) = manifests(tmp_path, REPOSITORY + "password: {env: P}\n")
    lines = ManifestPlanner(api, dry_run=False, environ={"P": "x"}).apply(manifest)
    assert lines == [f"~ Repository {URL} changed", "  signIn: (none) → BASIC"]


def test_sources_name_repositories_by_url_and_are_compared_whole(tmp_path: Path) -> None:
    source = {"repositoryId": "g1", "ref": "main", "folder": "web", "path": "chart"}
    api = FakeApi(
        {
            repository_api.REPOSITORY: {"gitRepository": {"id": "g1"}},
            service_api.SERVICE: {"serviceDeployment": {**FOUND_SERVICE, "sources": [source]}},
            service_api.UPDATE_SERVICE: {"updateServiceDeployment": {"id": "s1"}},
        }
    )
    text = SERVICE + f"sources: [{{repository: '{URL}', folder: web, path: chart}}]\n"
    assert apply(tmp_path, api, text) == ["= Service dev/web unchanged"]
    apply(tmp_path, api, text.replace("folder: web,", "folder: web, ref: v2,"))
    (sent,) = api.sent(service_api.UPDATE_SERVICE)
    assert sent["attributes"]["sources"] == [{**source, "ref": "v2"}]
    with pytest.raises(Invalid, match="a source needs a repository"):
        apply(tmp_path, api, SERVICE + "sources: [{folder: web}]\n")


def test_a_repository_takes_every_way_of_signing_in(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("PEM")
    api = FakeApi(
        {
            cluster_api.CLUSTER: {"cluster": {"id": "c1"}},
            repository_api.REPOSITORY: {"gitRepository": {"id": "g1", "signIn": "SSH"}},
            repository_api.UPDATE_REPOSITORY: {"updateGitRepository": {"id": "g1"}},
        }
    )
    app = "appId: '7'\ninstallationId: '9'\nvia: dev\nsubmodules: true\n"
    key = f"privateKey: {{file: {tmp_path / 'key'}}}\n"
    assert apply(tmp_path, api, REPOSITORY + app + key) == [
        f"~ Repository {URL} changed",
        "  signIn: SSH → APP",
        "  viaClusterId: (none) → c1",
        "  recurseSubmodules: (none) → True",
    ]
    (sent,) = api.sent(repository_api.UPDATE_REPOSITORY)
    given = {key: one for key, one in sent["attributes"].items() if one is not None}
    assert given == {
        "url": URL,
        "appId": "7",
        "installationId": "9",
        "privateKey": "PEM",
        "viaClusterId": "c1",
        "recurseSubmodules": True,
    }


DEEP_PIPELINE = """apiVersion: towline/v1
kind: Pipeline
name: shop
stages:
  - {name: dev, services: [dev/web]}
  - name: fleet
    serviceNames: [web]
    selector: {tags: {tier: prod}}
    rollout: {strategy: CANARY, canaryCount: 2, pauseSeconds: 600, maxFailed: 1}
    verificationSeconds: 900
    git:
      mode: REQUEST
      author: Towline <towline@localhost>
      changes: [{kind: FIELD, path: prod/values.yaml, image: shop, field: [web, tag]}]
onCommit: false
triggers:
  - {name: weekly, type: SCHEDULE, cron: "0 9 * * 1", zone: UTC}
  - name: image
    type: IMAGE
    image: registry.example.org/shop
    policy: SEMVER
    git: {changes: [{kind: IMAGE, path: dev/d.yaml, image: shop, value: "${tag}"}]}
edges:
  - from: dev
    to: fleet
    gates:
      - name: hours
        type: WINDOW
        calendar:
          zone: Europe/Berlin
          hours: [{weekdays: [0, 1, 2, 3], begin: "09:00", end: "17:00"}]
          freezes: [{begin: "2026-12-20T00:00:00Z", end: "2027-01-02T00:00:00Z", reason: rest}]
      - {name: errors, type: METRIC, metric: {query: up, threshold: 0, url: "https://p.example.org"}}
      - name: test
        type: WORKFLOW
        steps:
          - {name: run, type: JOB, job: {namespace: ci, cluster: dev, manifest: {kind: Pod}}}
          - {name: look, type: APPROVAL, after: [run], quorum: 2}
"""


def deep_found() -> dict[str, Any]:
    """Response of the API for the pipeline above."""
    dev = found_pipeline()["stages"][0]
    selector = {"tags": [{"name": "tier", "value": "prod"}], "distro": None, "groupIds": []}
    rollout = {"strategy": "CANARY", "canaryCount": 2, "pauseSeconds": 600, "maxFailed": 1}
    names = {"image": "shop", "field": ["web", "tag"]}
    field = {"kind": "FIELD", "path": "prod/values.yaml", **names}
    fleet = {
        "name": "fleet",
        "services": [{"service": {"id": "any"}}],
        "serviceNames": ["web"],
        "selector": selector,
        "rollout": {**dict.fromkeys(StageRolloutAttributes.__annotations__), **rollout},
        "verification": {"soakSeconds": 900, "maxRestarts": 3, "metric": None},
        "git": json.dumps({"mode": "REQUEST", "changes": [field]}),
    }
    freeze = {
        "begin": "2026-12-20T00:00:00+00:00",
        "end": "2027-01-02T00:00:00+00:00",
        "reason": "rest",
    }
    hours = {"weekdays": [0, 1, 2, 3], "begin": "09:00:00", "end": "17:00:00"}
    calendar = {"zone": "Europe/Berlin", "hours": [hours], "freezes": [freeze]}
    metric = {"query": "up", "threshold": 0.0, "url": "https://p.example.org"}
    job = {"namespace": "ci", "manifest": {"kind": "Pod"}, "clusterId": "id of dev"}
    steps = [
        {"name": "run", "type": "JOB", "job": job},
        {"name": "look", "type": "APPROVAL", "after": ["run"], "quorum": 2},
    ]
    settings = {
        "hours WINDOW": {"calendar": calendar},
        "errors METRIC": {"metric": metric},
        "test WORKFLOW": {"steps": steps},
    }
    gates = [
        {"name": key.split()[0], "type": key.split()[1], "settings": json.dumps(value)}
        for key, value in settings.items()
    ]
    edge = {"from": {"name": "dev"}, "to": {"name": "fleet"}, "gates": gates}
    pipeline = {"id": "p1", "name": "shop", "stages": [dev, fleet], "edges": [edge]}
    return {**pipeline, "onCommit": False, "triggers": deep_triggers()}


def deep_triggers() -> list[dict[str, Any]]:
    """Triggers of the pipeline above."""
    image = {"kind": "IMAGE", "path": "dev/d.yaml", "image": "shop"}
    return [
        {
            "name": "weekly",
            "type": "SCHEDULE",
            "settings": json.dumps({"cron": "0 9 * * 1"}),
            "git": None,
        },
        {
            "name": "image",
            "type": "IMAGE",
            "settings": json.dumps({"image": "registry.example.org/shop"}),
            "git": json.dumps({"changes": [image]}),
        },
    ]


def test_a_pipeline_with_every_sort_of_setting_is_left_alone(tmp_path: Path) -> None:
    """Selectors, roll-outs, calendars, metrics and workflows are compared as the API tells them."""
    api = FakeApi(
        {
            pipeline_api.PIPELINE: {"pipeline": deep_found()},
            service_api.SERVICE: found_service,
            cluster_api.CLUSTER: {"cluster": {"id": "id of dev"}},
        }
    )
    assert apply(tmp_path, api, DEEP_PIPELINE) == ["= Pipeline shop unchanged"]


def test_a_policy_of_verification_is_compared_as_far_as_it_is_named(tmp_path: Path) -> None:
    """Fields that a manifest omits keep their values; a changed policy is sent whole."""
    metric = {"address": "m/p:9090", "query": "up", "comparison": "AT_MOST", "threshold": 1.0}
    policy = {"soakSeconds": 60, "maxRestarts": 3, "metric": metric}
    api = FakeApi(
        {
            service_api.SERVICE: {"serviceDeployment": {**FOUND_SERVICE, "verification": policy}},
            service_api.UPDATE_SERVICE: {"updateServiceDeployment": {}},
        }
    )
    said = "verification: {soakSeconds: 60, metric: {query: up, threshold: 1}}"
    assert apply(tmp_path, api, f"{SERVICE}{said}\n") == ["= Service dev/web unchanged"]
    lines = apply(tmp_path, api, f"{SERVICE}{said.replace('60', '90')}\n")
    assert lines[1:] == ["  verification.soakSeconds: 60 → 90"]
