"""Actions on objects and on several rows, tried on real clusters."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from core.json_object import JsonObject
from tests.fakes.metrics_server import metrics_server
from tests.integration.console.conftest import BrowserTab, commit, viewer
from tests.integration.console.keys import Keys
from towline.demo.environment import DemoCluster, wait_until
from towline.demo.steps import NAMESPACE, DemoSteps

pytestmark = pytest.mark.timeout(240)

WORKSHOP = "atelier"
_COMPONENTS = """query ($id: ID!) {
  serviceDeployment(id: $id) { components { id kind name } } }"""
_DRIFT = """query ($id: ID!) {
  serviceDeployment(id: $id) { state drifted components { id name } } }"""
_CREATE = """mutation ($c: ID!, $a: ServiceDeploymentAttributes!) {
  createServiceDeployment(clusterId: $c, attributes: $a) { id } }"""
_DELETE = "mutation ($id: ID!) { deleteServiceDeployment(id: $id) { id } }"
_OPEN: JsonObject = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# The definition of Argo Rollouts, without its schema.
_ROLLOUTS: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "rollouts.argoproj.io"},
    "spec": {
        "group": "argoproj.io",
        "scope": "Namespaced",
        "names": {"kind": "Rollout", "plural": "rollouts", "singular": "rollout"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _OPEN},
                "subresources": {"status": {}},
            }
        ],
    },
}
_CRON_JOB: JsonObject = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "report"},
    "spec": {
        "schedule": "0 3 * * *",
        "jobTemplate": {
            "spec": {
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [
                            {"name": "report", "image": "registry.example.org/report:1"}
                        ],
                    }
                }
            }
        },
    },
}
_ROLLOUT: JsonObject = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Rollout",
    "metadata": {"name": "canary"},
    "spec": {"strategy": {"canary": {"steps": [{"setWeight": 20}, {"pause": {}}]}}},
}
_PAUSED: JsonObject = {
    "status": {
        "currentPodHash": "new",
        "stableRS": "old",
        "currentStepIndex": 1,
        "pauseConditions": [{"reason": "CanaryPauseStep"}],
    }
}


def _act(page: Page, title: str) -> Locator:
    """Selects an action of the menu, and returns its dialog once its effect is known."""
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("menuitem", name=re.compile(f"^{title}")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("status")).to_contain_text(re.compile("ready|without changes"))
    return dialog


def _run(dialog: Locator, title: str) -> None:
    dialog.get_by_role("button", name=title, exact=True).click()
    expect(dialog).to_be_hidden()


@dataclass(frozen=True, slots=True)
class Workshop:
    """Service with a CronJob and an Argo rollout."""

    member: DemoCluster
    objects: dict[str, str]
    """IDs of its objects by kind."""

    def read(self, kind: str, name: str) -> JsonObject:
        return json.loads(self.member.kubectl("get", kind, name, "-n", WORKSHOP, "-o", "json"))


@pytest.fixture(scope="module")
def workshop(story: DemoSteps) -> Iterator[Workshop]:
    member = story.stage.members["dev"]
    member.kubectl("apply", "-f", "-", stdin=json.dumps(_ROLLOUTS))
    member.kubectl("wait", "--for=condition=established", "crd/rollouts.argoproj.io")
    files = {f"{WORKSHOP}/cron.json": _CRON_JOB, f"{WORKSHOP}/rollout.json": _ROLLOUT}
    commit(story, {path: json.dumps(body) for path, body in files.items()}, "Open the workshop")
    repository = story.stage.ask("{ gitRepositories { edges { node { id } } } }")
    attributes = {
        "name": WORKSHOP,
        "namespace": WORKSHOP,
        "repositoryId": repository["gitRepositories"]["edges"][0]["node"]["id"],
        "git": {"ref": "main", "folder": WORKSHOP},
    }
    service = story.stage.ask(_CREATE, c=member.id, a=attributes)["createServiceDeployment"]["id"]

    def objects() -> dict[str, str]:
        found = story.stage.ask(_COMPONENTS, id=service)["serviceDeployment"]["components"]
        return {component["kind"]: component["id"] for component in found}

    wait_until("the objects of the workshop", lambda: {"CronJob", "Rollout"} <= set(objects()), 60)
    yield Workshop(member, objects())
    story.stage.ask(_DELETE, id=service)


def _pods(story: DemoSteps) -> list[str]:
    listed = story.stage.members["dev"].kubectl("get", "pods", "-n", NAMESPACE, "-o", "json")
    return [pod["metadata"]["name"] for pod in json.loads(listed)["items"]]


def _web(story: DemoSteps) -> str:
    found = story.stage.ask(_COMPONENTS, id=story.services["dev"])["serviceDeployment"]
    return next(one["id"] for one in found["components"] if one["kind"] == "Deployment")


def test_a_scaled_field_of_git_is_announced_and_reverted(ada: BrowserTab, story: DemoSteps) -> None:
    """The dialog shows the dry run, and says that self-heal reverts the change; it does."""
    page = ada.go(f"/objects/{_web(story)}")
    dialog = _act(page, "Scale Deployment")
    dialog.get_by_label("Replicas").fill("4")
    expect(dialog.get_by_role("region", name="Plan")).to_contain_text("spec.replicas")
    expect(dialog).to_contain_text("Git sets spec.replicas to 1. Self-heal reverts")
    expect(dialog).to_contain_text("kubectl --context towline-dev -n shop scale deployment/web")
    _run(dialog, "Scale Deployment")
    story.wait_replicas("dev", 1)


def test_a_restart_stays(ada: BrowserTab, story: DemoSteps) -> None:
    """A restart changes a field that Git does not set, so the agent leaves it. Keyboard only."""
    page = ada.go(f"/objects/{_web(story)}")
    keys = Keys(page)
    keys.use(page.get_by_role("button", name="Actions"))
    page.get_by_role("menuitem", name=re.compile("^Restart")).wait_for()
    keys.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Git does not set the changed field")
    keys.use(dialog.get_by_role("button", name="Restart Deployment"))
    expect(dialog).to_be_hidden()
    annotations = story.live_object("dev", "deployment", "web")["spec"]["template"]["metadata"]
    assert "kubectl.kubernetes.io/restartedAt" in annotations["annotations"]
    story.wait_healthy("dev")


def test_selected_pods_are_deleted_with_a_result_each(ada: BrowserTab, story: DemoSteps) -> None:
    """The keys j and x select a row; the dialog stays while the Pod disappears below it."""
    # An earlier restart may still replace the Pod.
    wait_until("one Pod in dev", lambda: len(_pods(story)) == 1, 60)
    (name,) = _pods(story)
    page = ada.go(f"/services/{story.services['dev']}?tab=objects")
    page.get_by_label("Filter objects").fill(name)
    expect(page.get_by_role("link", name=name)).to_be_visible()
    page.get_by_label("Filter objects").blur()
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_text("1 selected")).to_be_visible()
    dialog = _act(page, "Delete Pod")
    expect(dialog).to_contain_text(name)
    _run(dialog, "Delete Pod")
    expect(page.get_by_role("link", name=name)).to_have_count(0)
    story.wait_healthy("dev")


def test_a_cron_job_runs_now_and_is_suspended(ada: BrowserTab, workshop: Workshop) -> None:
    page = ada.go(f"/objects/{workshop.objects['CronJob']}")
    dialog = _act(page, "Run CronJob now")
    expect(dialog).to_contain_text("kubectl --context towline-dev -n atelier create job")
    _run(dialog, "Run CronJob now")
    listed = workshop.member.kubectl("get", "jobs", "-n", WORKSHOP, "-o", "json")
    (job,) = json.loads(listed)["items"]
    assert job["metadata"]["ownerReferences"][0]["name"] == "report"
    _run(_act(page, "Suspend CronJob"), "Suspend CronJob")
    assert workshop.read("cronjob", "report")["spec"]["suspend"] is True
    _run(_act(page, "Resume CronJob"), "Resume CronJob")
    assert workshop.read("cronjob", "report")["spec"]["suspend"] is False


def test_a_rollout_is_promoted_and_aborted(ada: BrowserTab, workshop: Workshop) -> None:
    """The first promotion ends the pause and keeps the step; the next one skips the step."""
    page = ada.go(f"/objects/{workshop.objects['Rollout']}")
    patch = ["patch", "rollout", "canary", "-n", WORKSHOP, "--subresource=status"]
    workshop.member.kubectl(*patch, "--type=merge", "-p", json.dumps(_PAUSED))
    _run(_act(page, "Promote Rollout…"), "Promote Rollout")
    status = workshop.read("rollout", "canary")["status"]
    assert (status.get("pauseConditions"), status["currentStepIndex"]) == (None, 1)
    _run(_act(page, "Promote Rollout…"), "Promote Rollout")
    assert workshop.read("rollout", "canary")["status"]["currentStepIndex"] == 2
    _run(_act(page, "Abort Rollout"), "Abort Rollout")
    assert workshop.read("rollout", "canary")["status"]["abort"] is True
    _run(_act(page, "Retry Rollout"), "Retry Rollout")
    assert workshop.read("rollout", "canary")["status"]["abort"] is False


def test_actions_name_the_missing_permission(stranger: BrowserTab, story: DemoSteps) -> None:
    """A viewer sees the actions, disabled with the reason."""
    token = viewer(story, "spectator")
    stranger.page.set_extra_http_headers({"Authorization": f"Bearer {token}"})
    page = stranger.go(f"/objects/{_web(story)}")
    page.get_by_role("button", name="Actions").click()
    restart = page.get_by_role("menuitem", name=re.compile("^Restart"))
    expect(restart).to_have_attribute("aria-disabled", "true")
    expect(restart).to_contain_text(re.compile("permission|may not|role", re.IGNORECASE))


def test_services_are_suspended_and_resumed_together(ada: BrowserTab, story: DemoSteps) -> None:
    """Sorts, selects with the keyboard, plans, and shows a result for each service."""
    page = ada.go("/services?q=shop&order=cluster")
    services = page.get_by_role("region", name="Services")
    expect(services.get_by_role("link", name="shop")).to_have_count(2)
    for key in ("j", "x", "j", "x"):
        page.keyboard.press(key)
    for action, result in (("Suspend", "suspended"), ("Resume", "resumed")):
        page.get_by_role("button", name=f"{action} services…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("2 services: 2 ready")
        dialog.get_by_role("button", name=f"{action} services", exact=True).click()
        expect(dialog).to_contain_text(f"2 services: 2 {result}")
        dialog.get_by_role("button", name="Close").click()
    story.wait_healthy("dev")


def test_a_list_is_narrowed_by_conditions_and_exported(ada: BrowserTab, story: DemoSteps) -> None:
    page = ada.go("/services")
    page.get_by_label("Filter services").fill("shop cluster:dev colour:red")
    expect(page.get_by_text("Unknown condition colour")).to_be_visible()
    page.get_by_label("Filter services").fill("shop cluster:dev label:team=none")
    expect(page.get_by_text("No matching services")).to_be_visible()
    page.get_by_label("Filter services").fill("shop cluster:dev")
    services = page.get_by_role("region", name="Services")
    expect(services.get_by_role("link", name="shop")).to_have_count(1)
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as waiting:
        page.get_by_role("menuitem", name="Export as JSON").click()
    rows = json.loads(waiting.value.path().read_text())
    assert [(row["name"], row["cluster"]["handle"]) for row in rows] == [("shop", "dev")]
    page.get_by_role("button", name="View", exact=True).click()
    page.get_by_label("Name of the view").fill("Shop in dev")
    page.get_by_role("button", name="Save view").click()
    expect(page.get_by_role("link", name="Shop in dev")).to_be_visible()
    check_shared_view(ada, story)


def check_shared_view(ada: BrowserTab, story: DemoSteps) -> None:
    """A view is shared with everybody, and its link opens the list."""
    page = ada.go("/views")
    page.get_by_role("link", name="Shop in dev").click()
    page.get_by_role("button", name="Share view…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Shared with").select_option("EVERYBODY")
    dialog.get_by_role("button", name="Share view", exact=True).click()
    row = page.get_by_role("row").filter(has_text="services")
    expect(row.get_by_role("cell", name="everybody")).to_be_visible()
    (view,) = story.stage.ask("{ savedViews { id sharing } }")["savedViews"]
    assert view["sharing"] == "EVERYBODY"
    page = ada.go(f"/views/{view['id']}")
    expect(page.get_by_label("Filter services")).to_have_value("shop cluster:dev")


def test_the_overview_has_the_state_of_the_workloads(
    ada: BrowserTab, story: DemoSteps, tmp_path: Path
) -> None:
    story.wait_healthy("dev")
    page = ada.go(f"/services/{story.services['dev']}")
    workloads = page.get_by_role("region", name="Workloads")
    expect(workloads).to_contain_text("1 of 1 ready")
    expect(workloads).to_contain_text("CPU and memory are not available")
    with metrics_server(story.stage.members["dev"], tmp_path):
        page.reload()
        expect(workloads).to_contain_text("12m")
        expect(workloads).to_contain_text("25 MiB")
    expect(page.get_by_role("region", name="Images")).to_contain_text("registry.example.org/shop")


def test_two_deployments_are_compared(ada: BrowserTab, story: DemoSteps) -> None:
    files: dict[str, str | bytes | None] = {
        "dev/extra.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n"
    }
    commit(story, files, "Add extra settings")
    page = ada.go(f"/services/{story.services['dev']}?tab=history")
    row = page.get_by_role("row").filter(has_text="Add extra settings")
    expect(row).to_contain_text("Current")
    boxes = page.get_by_role("checkbox", name=re.compile("^Compare"))
    boxes.nth(0).check()
    boxes.nth(1).check()
    comparison = page.get_by_role("region", name="Comparison")
    expect(comparison).to_contain_text("ConfigMap")
    expect(comparison).to_contain_text("extra")
    commit(story, {"dev/extra.yaml": None}, "Remove extra settings")


@dataclass(frozen=True, slots=True)
class SettingsService:
    """Service with the ConfigMaps near and far, which only reports drift."""

    story: DemoSteps
    id: str
    name: str

    @property
    def member(self) -> DemoCluster:
        return self.story.stage.members["dev"]

    def state(self) -> Any:
        return self.story.stage.ask(_DRIFT, id=self.id)["serviceDeployment"]

    def component(self, key: str) -> str:
        return next(one["id"] for one in self.state()["components"] if one["name"] == key)

    def value(self, key: str) -> str | None:
        """Where the present value of a ConfigMap is from; None: there is no such ConfigMap."""
        place = ("-n", self.name, "-o", "json", "--ignore-not-found")
        got = self.member.kubectl("get", "configmap", key, *place)
        return json.loads(got)["data"]["from"] if got else None


@pytest.fixture
def settings(story: DemoSteps) -> Iterator[SettingsService]:
    name = "bench"
    maps = {
        f"{name}/{key}.json": json.dumps(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": key},
                "data": {"from": "git"},
            }
        )
        for key in ("near", "far")
    }
    commit(story, {**maps}, "Put up the bench")
    repository = story.stage.ask("{ gitRepositories { edges { node { id } } } }")
    attributes = {
        "name": name,
        "namespace": name,
        "repositoryId": repository["gitRepositories"]["edges"][0]["node"]["id"],
        "git": {"ref": "main", "folder": name},
        "syncConfig": {"driftPolicy": "REPORT"},
    }
    cluster = story.stage.members["dev"].id
    id = story.stage.ask(_CREATE, c=cluster, a=attributes)["createServiceDeployment"]["id"]
    service = SettingsService(story, id, name)
    wait_until("the service", lambda: service.state()["state"] == "HEALTHY", 60)
    yield service
    story.stage.ask(_DELETE, id=id)
    gone = '{ serviceDeployments(q: "bench") { edges { node { id } } } }'
    wait_until(
        "the deletion", lambda: story.stage.ask(gone)["serviceDeployments"]["edges"] == [], 60
    )


def test_one_object_of_a_service_is_synced(ada: BrowserTab, settings: SettingsService) -> None:
    """The other drifted object stays as it is; the result is in the history, not a deployment."""
    id, name = settings.id, settings.name
    for key in ("near", "far"):
        edit = json.dumps({"data": {"from": "hand"}})
        settings.member.kubectl("patch", f"configmap/{key}", "-n", name, "--patch", edit)
    wait_until("the drift", lambda: settings.state()["drifted"] == 2, 60)
    ada.go(f"/objects/{settings.component('near')}?tab=drift")
    ada.page.get_by_role("button", name="Sync object…").click()
    dialog = ada.page.get_by_role("dialog")
    dialog.get_by_text("Command", exact=True).click()
    expect(dialog).to_contain_text(f"services sync {id} --resource ConfigMap/{name}/near")
    dialog.get_by_role("button", name="Sync", exact=True).click()
    wait_until("the sync of one object", lambda: settings.state()["drifted"] == 1, 60)
    assert (settings.value("near"), settings.value("far")) == ("git", "hand")
    ada.go(f"/services/{id}?tab=history")
    rows = ada.page.get_by_role("region", name="Partial syncs").get_by_role("row")
    expect(rows.nth(1)).to_contain_text(f"partial sync of ConfigMap {name}/near succeeded")
    expect(ada.page.get_by_role("region", name="Deployments").get_by_role("row")).to_have_count(2)


def test_one_object_is_edited_and_deleted(ada: BrowserTab, settings: SettingsService) -> None:
    """The API server takes the edit of the version that was shown, and deletes what was named."""
    page = ada.go(f"/objects/{settings.component('near')}")
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("menuitem", name=re.compile("^Edit")).click()
    dialog = page.get_by_role("dialog", name=re.compile("^Edit ConfigMap"))
    field = dialog.get_by_role("textbox", name=re.compile("^Manifest"))
    manifest = field.input_value()
    assert "managedFields" not in manifest
    field.fill(manifest.replace("from: git", "from: console"))
    expect(dialog).to_contain_text("data.from")
    assert settings.value("near") == "git"
    _run(dialog, "Edit ConfigMap")
    assert settings.value("near") == "console"
    wait_until("the drift", lambda: settings.state()["drifted"] == 1, 60)

    page.get_by_role("button", name="Actions").click()
    page.get_by_role("menuitem", name=re.compile("^Delete")).click()
    dialog = page.get_by_role("dialog", name=re.compile("^Delete ConfigMap"))
    button = dialog.get_by_role("button", name="Delete ConfigMap", exact=True)
    name = dialog.get_by_role("textbox", name=re.compile("^Name of the object"))
    name.fill("far")
    expect(dialog).to_contain_text("Type near to confirm the deletion.")
    expect(button).to_be_disabled()
    name.fill("near")
    _run(dialog, "Delete ConfigMap")
    assert (settings.value("near"), settings.value("far")) == (None, "git")
