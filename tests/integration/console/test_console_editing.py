"""User journeys with changes: secrets, exports, gates and roles, also with the keyboard only."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from playwright.sync_api import expect

from tests.integration.console.conftest import EMAIL, PASSWORD, BrowserTab, commit, viewer
from tests.integration.console.furnished import furnish
from tests.integration.console.keys import Keys, button
from towline.demo.sample import shop
from towline.demo.steps import NAMESPACE, DemoSteps

pytestmark = pytest.mark.timeout(240)

_SAVE = 'mutation ($a: PipelineAttributes!) { savePipeline(name: "shop", attributes: $a) { id } }'
_ANNOTATE = """async ([path, patch]) => (await fetch(path, {
    method: "PATCH", body: JSON.stringify(patch), headers: {
    "Content-Type": "application/merge-patch+json", "X-Towline-CSRF": "console" } })).status"""
_CONTAINER = {"name": "smoke", "image": "busybox", "command": ["true"]}
_JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "smoke"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [_CONTAINER]}}},
}


def test_a_secret_is_sealed_rotated_and_never_shown(ada: BrowserTab, story: DemoSteps) -> None:
    """The page never shows the value, and follows the rotation live."""
    made = furnish(story)
    page = ada.go("/secrets")
    keys = Keys(page)
    keys.use(page.get_by_role("link", name="db-password"))
    keys.use(button(page, "New version"))
    keys.write(page.get_by_role("textbox", name=re.compile("^Value")), "not-to-be-seen-2")
    keys.write(page.get_by_role("spinbutton", name=re.compile("^Soak time")), "0")
    keys.use(button(page, "Start rotation"))
    rotation = page.get_by_role("region", name="Rotation")
    expect(rotation).to_contain_text("1 → 2")
    expect(page.get_by_role("region", name="Consumers")).to_contain_text("shop")
    expect(rotation).to_contain_text("Awaiting approval", timeout=90_000)
    keys.use(rotation.get_by_role("button", name="Destroy old version"))
    dialog = page.get_by_role("dialog")
    keys.write(dialog.get_by_role("textbox"), "db-password")
    keys.use(dialog.get_by_role("button", name="Destroy version"))
    expect(rotation).to_contain_text("Completed")
    expect(page.get_by_role("region", name="Versions")).to_contain_text("Destroyed")
    assert "not-to-be-seen-2" not in page.content()
    story.stage.ask(
        "mutation ($s: ID!) { useSecrets(serviceId: $s, uses: []) { id } }",
        s=story.services["dev"],
    )
    story.stage.ask("mutation ($s: ID!) { deleteSecret(id: $s) { id } }", s=made.secret)


def test_values_say_where_they_come_from_and_whom_they_reach(
    ada: BrowserTab, story: DemoSteps
) -> None:
    """The page shows a graph and tables, and validates edits before saving. Keyboard only."""
    furnish(story)
    page = ada.go(f"/services/{story.services['prod']}?tab=values")
    imports = page.get_by_role("region", name="Imports")
    expect(imports).to_contain_text("imports.upstream")
    expect(imports).to_contain_text("shop.example.org")
    expect(page.locator(".react-flow__node")).to_have_count(2)
    keys = Keys(page)
    keys.use(imports.get_by_role("link", name="address"))
    expect(page.get_by_text("A change of the exports affects")).to_be_visible()
    expect(page.get_by_role("region", name="Exports")).to_contain_text("8080")
    keys.use(button(page, "Edit exports"))
    keys.reach(page.locator(".cm-content"))
    keys.press("Control+End")
    page.keyboard.insert_text("exportz: []\n")
    expect(page.get_by_text("exportz: unknown field")).to_be_visible()
    expect(page.get_by_role("button", name="Save")).to_be_disabled()


def test_services_that_need_each_other_are_one_graph(ada: BrowserTab, story: DemoSteps) -> None:
    """The graph and its text lead along the edges, to each service. Keyboard only."""
    furnish(story)
    page = ada.go("/services")
    keys = Keys(page)
    keys.use(button(page, "Graph"))
    graph = page.get_by_role("group", name="Services; arrow keys move along edges")
    dev, prod = (graph.get_by_role("button", name=re.compile(name)) for name in ("dev", "prod"))
    keys.reach(dev)
    keys.press("ArrowRight")
    expect(prod).to_be_focused()
    keys.press("Enter")
    details = page.get_by_role("complementary", name="Selected service")
    expect(details).to_contain_text("Imports values of")
    expect(details).to_contain_text("address")
    keys.use(details.get_by_role("button", name="dev/shop"))
    expect(details).to_contain_text("Exports values to")
    keys.use(details.get_by_role("link", name="Open service"))
    expect(page).to_have_url(ada.base + f"/services/{story.services['dev']}")


@pytest.fixture
def worked(story: DemoSteps) -> Iterator[None]:
    """Adds a workflow in dev and a metric gate with measurements; removes them afterwards."""
    dev, prod = ({"name": n, "services": [{"serviceId": id}]} for n, id in story.services.items())
    job = {"namespace": "default", "manifest": json.dumps(_JOB)}
    steps = [
        {"name": "smoke", "type": "JOB", "job": job},
        {"name": "look", "type": "APPROVAL", "after": ["smoke"]},
    ]
    approval = {"name": "sign-off", "type": "APPROVAL"}
    asked = {"url": "https://prometheus.example.org", "query": "errors", "threshold": 1}
    metric = {"name": "errors", "type": "METRIC", "metric": asked}
    edge = {"from": "dev", "to": "prod"}
    stages = [{**dev, "workflow": {"steps": steps}}, prod]
    story.stage.ask(_SAVE, a={"stages": stages, "edges": [{**edge, "gates": [metric, approval]}]})
    _have_measured(story, (0.2, 0.8, 1.4))
    yield
    story.stage.ask(_SAVE, a={"stages": [dev, prod], "edges": [{**edge, "gates": [approval]}]})


def _have_measured(story: DemoSteps, values: tuple[float, ...]) -> None:
    """Stores measurements of the pipeline's metric, one per minute."""
    gates = story.stage.ask('{ pipeline(name: "shop") { edges { gates { id name } } } }')
    (gate,) = [
        one["id"] for one in gates["pipeline"]["edges"][0]["gates"] if one["name"] == "errors"
    ]
    answers = [
        {"at": f"2026-11-21T12:{minute:02}:00Z", "step": "check", "release": 1, "passed": one <= 1}
        | {"values": [one]}
        for minute, one in enumerate(values)
    ]
    with closing(sqlite3.connect(story.stage.data / "towline.db", timeout=60)) as store, store:
        change = "UPDATE pipeline_gates SET measured = ? WHERE id = ?"
        store.execute(change, (json.dumps(answers), gate))


def test_a_stage_has_a_workflow_and_a_gate_its_figures(
    ada: BrowserTab, story: DemoSteps, worked: None
) -> None:
    """The board links to the workflow with its steps, job log and decision; a metric shows earlier
    measurements."""
    commit(story, shop("4.0"), "Release 4.0")
    page = ada.go("/pipelines")
    own = page.get_by_role("list", name="Workflow of dev")
    own.get_by_role("link", name="dev workflow").press("Enter")
    smoke = page.get_by_role("region", name="Step smoke")
    expect(smoke).to_contain_text("Succeeded", timeout=90_000)
    expect(page.get_by_role("region", name="Job log")).to_contain_text("line 100 of")
    expect(page.locator(".cm-content")).to_contain_text("restartPolicy: Never")
    look = page.get_by_role("region", name="Step look")
    expect(look).to_contain_text("waiting for approval")
    page.get_by_role("button", name="Approve…").press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("dev/shop commit")
    expect(dialog).to_contain_text("sha256:")
    expect(dialog).to_contain_text("from this repository")
    dialog.get_by_role("button", name="Approve release").press("Enter")
    expect(look).to_contain_text("approved")
    ada.turn_to("/pipelines")
    expect(
        page.get_by_role("region", name="Stage dev").get_by_text("Healthy").first
    ).to_be_visible()
    page.get_by_role("link", name="errors").press("Enter")
    chart = page.get_by_role("img", name="3 measurements, limit at most 1: 1 failed")
    expect(chart).to_have_accessible_name(re.compile("Latest: 1.4"))


def test_a_role_is_written_given_and_explained(ada: BrowserTab, story: DemoSteps) -> None:
    """An administrator creates and grants a role, and the access check names it."""
    story.stage.ask(
        'mutation { upsertUser(attributes: {email: "kim@example.org", name: "Kim"}) { id } }'
    )
    page = ada.go("/access?tab=roles")
    page.get_by_role("button", name="New role").press("Enter")
    page.get_by_role("textbox", name="Name", exact=True).fill("on-call")
    expect(page.get_by_text("select at least one permission")).to_be_visible()
    page.get_by_role("checkbox", name="write service").press("Space")
    page.get_by_role("button", name="Save role").press("Enter")
    expect(page.get_by_role("region", name="Roles", exact=True)).to_contain_text("on-call")
    page.get_by_role("button", name="Grant role").press("Enter")
    page.locator("select[name=role]").select_option("on-call")
    page.get_by_role("textbox", name="Subject", exact=True).fill("kim@example.org")
    page.get_by_role("button", name="Grant role").last.press("Enter")
    expect(page.get_by_role("region", name="Role bindings")).to_contain_text("kim@example.org")
    ada.turn_to("/access?tab=who&person=kim@example.org")
    explained = page.get_by_role("region", name="Access check")
    expect(explained).to_contain_text("Allowed")
    expect(explained).to_contain_text("on-call")
    page.get_by_label("Verb", exact=True).select_option("ADMINISTER")
    expect(explained).to_contain_text("Denied")


def test_access_is_asked_for_given_and_taken_back(
    ada: BrowserTab, stranger: BrowserTab, story: DemoSteps
) -> None:
    """A user requests access to one cluster, and sees the decision of another user live."""
    asking = stranger.page
    asking.set_extra_http_headers({"Authorization": f"Bearer {viewer(story, 'asker')}"})
    stranger.go("/access?tab=requests&role=editor")
    keys = Keys(asking)
    where = asking.get_by_role("textbox", name=re.compile("^Scope"))
    keys.write(where, "cluster/nowhere")
    keys.write(asking.get_by_role("textbox", name="Reason"), "release 42 is stuck")
    ask = asking.get_by_role("button", name="Request access", exact=True)
    keys.use(ask)
    expect(asking.get_by_role("alert")).to_contain_text("cluster/nowhere not found")
    keys.write(where, "cluster/prod")
    keys.use(ask)
    asked = asking.get_by_role("row").filter(has_text="release 42 is stuck")
    expect(asked).to_contain_text('cluster "prod"')
    page = ada.go("/access?tab=requests")
    given = page.get_by_role("row").filter(has_text="release 42 is stuck")
    keys = Keys(page)
    keys.use(given.get_by_role("button", name="Approve"))
    expect(given).to_contain_text("expires")
    expect(asked).to_contain_text("Granted")
    keys.use(given.get_by_role("button", name="Revoke"))
    expect(given).to_contain_text("Revoked")


def test_a_context_keeps_its_secrets_and_differs_by_place(
    ada: BrowserTab, story: DemoSteps
) -> None:
    """Editing values keeps the secrets, and a cluster can override a value."""
    page = ada.go("/contexts?edit=*")
    page.get_by_role("textbox", name="Name", exact=True).fill("limits")
    page.get_by_role("textbox", name=re.compile("^Secrets")).fill("user: shop\nkey: hidden\n")
    page.get_by_role("button", name="Save").press("Enter")
    row = page.get_by_role("row").filter(has_text="limits")
    row.get_by_role("button", name="Edit").press("Enter")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("replicas: 2\n")
    page.get_by_role("button", name="Save").press("Enter")
    expect(row).to_contain_text("region, replicas")
    known = '{ serviceContext(name: "limits") { secretsVersion } }'
    assert story.stage.ask(known)["serviceContext"]["secretsVersion"] == 1
    row.get_by_role("button", name="Edit").press("Enter")
    place = page.get_by_role("combobox", name="Override scope")
    place.fill("prod")
    expect(page.locator("datalist option[value='cluster prod']")).to_be_attached()
    place.fill("cluster prod")
    page.locator(".cm-content").last.click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("replicas: 5\n")
    page.get_by_role("button", name="Save").last.press("Enter")
    overrides = page.get_by_role("region", name="Overrides")
    expect(overrides).to_contain_text("replicas: 5")
    expect(overrides).to_contain_text("cluster prod")
    row.get_by_role("button", name="Delete…").press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("limits")
    dialog.get_by_role("button", name="Delete context").press("Enter")
    expect(row).to_be_hidden()


def test_a_repository_is_connected_changed_and_removed(
    ada: BrowserTab, stranger: BrowserTab, story: DemoSteps
) -> None:
    """The token can be replaced, and a viewer gets an error for a fetch."""
    url = story.stage.repository.url.removesuffix(".git") + "-not-there.git"
    page = ada.go("/repositories?new=1")
    page.get_by_role("textbox", name="URL").fill(url)
    page.get_by_role("button", name="Connect", exact=True).press("Enter")
    tested = page.get_by_role("region", name="Connection test")
    expect(tested).to_contain_text("has no such repository")
    row = page.get_by_role("row").filter(has_text=url)
    expect(row).to_contain_text("has no such repository")
    row.get_by_role("button", name="Edit…").press("Enter")
    page.get_by_role("combobox", name="Authentication").select_option(label="username and token")
    page.get_by_role("textbox", name="Username").fill("bot")
    page.get_by_role("textbox", name="Token").fill("replaced")
    page.get_by_role("button", name="Save").press("Enter")
    expect(row).to_contain_text("basic")
    stranger.page.set_extra_http_headers({"Authorization": f"Bearer {viewer(story, 'reader')}"})
    reading = stranger.go(f"/repositories?q={url}")
    reading.get_by_role("button", name="Fetch now").press("Enter")
    expect(reading.get_by_role("alert")).to_contain_text("Permission denied")
    row.get_by_role("button", name="Remove…").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Remove repository").press("Enter")
    expect(row).to_be_hidden()


def test_delivery_is_counted_over_a_window(ada: BrowserTab, story: DemoSteps) -> None:
    """The page shows the DORA metrics, the URL keeps the time range, and the bar of a day lists its
    deployments."""
    page = ada.go("/reports")
    expect(page.get_by_text(re.compile("^[1-9].* became healthy"))).to_be_visible()
    page.get_by_role("button", name="7 days").press("Enter")
    expect(page).to_have_url(re.compile(r"span=7$"))
    days = page.get_by_role("group", name="Deployments per period").get_by_role("button")
    expect(days).to_have_count(7)
    expect(days.last).to_have_accessible_name(re.compile("[1-9]\\d* healthy"))
    days.last.press("Enter")
    expect(page.get_by_role("heading", name=re.compile("^Deployments from"))).to_be_visible()
    expect(page.get_by_role("region", name="Deployments").get_by_role("link").first).to_be_visible()
    page.get_by_role("tab", name="Time line").press("Enter")
    lanes = page.get_by_role("group", name="Deployments by cluster over time")
    expect(lanes.get_by_role("link").first).to_be_visible()


def test_delivery_is_divided_by_a_label_down_to_its_deployments(
    ada: BrowserTab, story: DemoSteps
) -> None:
    """A value filters the page, so that the overview lists the deployments of this team."""
    dev = story.stage.members["dev"].id
    tag = """mutation ($id: ID!, $a: ClusterUpdateAttributes!) {
      updateCluster(id: $id, attributes: $a) { id } }"""
    story.stage.ask(tag, id=dev, a={"tags": [{"name": "squad", "value": "shop"}]})
    page = ada.go("/reports?tab=breakdown")
    page.get_by_label("Label, such as team").fill("squad")
    page.get_by_role("region", name="By squad").get_by_role("button", name="shop").press("Enter")
    expect(page).to_have_url(re.compile(r"labels=squad%3Dshop"))
    page.get_by_role("tab", name="Overview").press("Enter")
    rows = page.get_by_role("region", name="Deployments").get_by_role("row")
    expect(rows.filter(has_text="dev").first).to_be_visible()
    expect(rows.filter(has_text="prod")).to_have_count(0)
    story.stage.ask(tag, id=dev, a={"tags": []})


def test_every_field_has_a_commit_or_a_person(ada: BrowserTab, story: DemoSteps) -> None:
    """Field owners can be filtered by part of a field's path."""
    known = story.stage.ask(
        "query ($id: ID!) { serviceDeployment(id: $id) { components { id kind } } }",
        id=story.services["dev"],
    )["serviceDeployment"]["components"]
    (web,) = [one["id"] for one in known if one["kind"] == "Deployment"]
    page = ada.go(f"/objects/{web}?tab=owners")
    page.get_by_label("Filter fields").fill("image")
    fields = page.get_by_role("region", name="Fields")
    expect(fields).to_contain_text("registry.example.org/shop")
    expect(fields).to_contain_text("Towline Demo")


def test_drift_has_the_name_of_who_did_it(ada: BrowserTab, story: DemoSteps) -> None:
    """A change through the Kubernetes proxy appears with its user. Keyboard only."""
    page = ada.go(f"/services/{story.services['dev']}?tab=objects")
    path = f"/k8s/clusters/dev/api/v1/namespaces/{NAMESPACE}/configmaps/settings"
    status = page.evaluate(_ANNOTATE, [path, {"metadata": {"annotations": {"by-hand": "yes"}}}])
    assert status == 200
    keys = Keys(page)
    keys.use(page.get_by_role("link", name="settings", exact=True))
    keys.use(page.get_by_role("tab", selected=True), "ArrowRight")
    strangers = page.get_by_role("region", name="Changed outside Git")
    expect(strangers).to_contain_text("by-hand")
    expect(strangers).to_contain_text(EMAIL)


def test_the_help_dialog_lists_shortcuts_that_open_their_pages(
    ada: BrowserTab, story: DemoSteps
) -> None:
    """`?` lists the shortcut of every page, each shortcut opens its page, and Back works."""
    page = ada.go("/")
    page.get_by_role("heading", name="Fleet").wait_for()
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(help_).to_contain_text("g e")
    page.keyboard.press("Escape")
    for key, title in (("e", "Secrets"), ("x", "Contexts"), ("i", "Access")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Contexts", level=1)).to_be_visible()


def test_services_are_walked_by_keys_alone(stranger: BrowserTab, story: DemoSteps) -> None:
    """Signs in, filters, opens a past time, a service, its history, an object and a shell."""
    page = stranger.go("/")
    keys = Keys(page)
    keys.write(page.get_by_label("E-mail"), EMAIL)
    keys.write(page.get_by_label("Password"), PASSWORD)
    keys.press("Enter")
    page.get_by_role("heading", name="Fleet").wait_for()
    keys.press("/")
    keys.type("shop")
    expect(page).to_have_url(re.compile(r"q=shop$"))
    keys.use(page.get_by_role("slider"), "ArrowLeft")
    keys.use(button(page, "Back to live"))
    keys.find("New service")
    keys.skip()
    keys.write(page.get_by_role("combobox", name=re.compile("^Cluster")), "dev")
    keys.press("Escape")
    keys.write(page.get_by_role("textbox", name=re.compile("^Name unique")), "keys")
    keys.use(button(page, "Cancel"))
    keys.turn("s", "Services")
    keys.press("j")
    keys.press("Enter")
    keys.use(page.get_by_role("tab", selected=True), "ArrowRight")
    keys.press("ArrowRight")
    for name in ("Topology", "Rollout"):
        expect(page.get_by_role("tab", name=name, selected=True)).to_be_focused()
        keys.press("ArrowRight")
    expect(page.get_by_role("tab", name="History", selected=True)).to_be_focused()
    for _ in range(3):
        keys.press("ArrowLeft")
    keys.use(page.get_by_role("link", name=re.compile(r"^web-\w+-\w+$")))
    page.get_by_role("tab", name="Shell").wait_for()
    keys.use(page.get_by_role("tab", selected=True), "ArrowLeft")
    keys.use(button(page, "Open shell"))
    expect(page.locator(".xterm-helper-textarea")).to_be_focused()
    keys.type("echo by-hand")
    keys.press("Enter")
    expect(page.locator(".xterm")).to_contain_text("by-hand")


def test_changes_are_walked_by_keys_alone(ada: BrowserTab, story: DemoSteps) -> None:
    """Approves a release, edits a pipeline, creates a secret and a role, registers a cluster."""
    page = ada.go("/")
    keys = Keys(page)
    page.get_by_role("heading", name="Fleet").wait_for()
    keys.turn("p", "Pipelines")
    keys.use(button(page, "Approve…").first)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("sha256:")
    keys.reach(dialog.get_by_role("button", name="Approve release"))
    keys.press("Escape")
    expect(dialog).to_be_hidden()
    keys.use(page.get_by_role("link", name="shop", exact=True))
    keys.use(page.get_by_role("link", name=re.compile("^(Edit|Change)")))
    keys.reach(page.locator(".cm-content"))
    # Tab must leave the editor.
    keys.reach(button(page, "Save"))
    keys.use(button(page, "Cancel"))
    keys.turn("e", "Secrets")
    keys.use(button(page, "New secret"))
    keys.write(page.get_by_role("textbox", name="Name", exact=True), "by-keys")
    keys.write(page.get_by_role("textbox", name=re.compile("^Value")), "never-shown")
    keys.use(button(page, "Create secret"))
    keys.use(page.get_by_role("link", name="by-keys"))
    keys.use(button(page, "Delete"))
    keys.write(page.get_by_role("dialog").get_by_role("textbox"), "by-keys")
    keys.use(page.get_by_role("dialog").get_by_role("button", name=re.compile("^Delete")))
    page.get_by_role("heading", name="Secrets", level=1).wait_for()
    keys.turn("i", "Access")
    # From the first tab around to the last one, and to the one before.
    keys.use(page.get_by_role("tab", selected=True), "ArrowLeft")
    expect(page.get_by_role("tab", name="Fences", selected=True)).to_be_focused()
    keys.press("ArrowLeft")
    keys.use(button(page, "New role"))
    keys.use(page.get_by_role("checkbox", name="read project"), "Space")
    expect(page.get_by_role("checkbox", name="read project")).to_be_checked()
    keys.find("Register cluster")
    keys.write(page.get_by_role("textbox", name=re.compile("^Name")), "by-keys")
    keys.reach(button(page, "Register cluster"))
