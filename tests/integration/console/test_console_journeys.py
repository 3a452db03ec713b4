"""User journeys through the console."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.integration.console.conftest import EMAIL, PASSWORD, BrowserTab, commit, viewer
from tests.integration.console.keys import Keys, button
from towline.demo.environment import DemoEnvironment
from towline.demo.sample import shop
from towline.demo.steps import DemoSteps

pytestmark = pytest.mark.timeout(180)

PROGRAM = [sys.executable, "-c", "from towline.cli import main; main()"]


def field(page: Page, label: str) -> Locator:
    """Text field by the start of its label; hints follow the label."""
    return page.get_by_role("textbox", name=re.compile(rf"^{label}\b"))


def chosen(page: Page, label: str) -> Locator:
    """Combobox by the start of its label."""
    return page.get_by_role("combobox", name=re.compile(rf"^{label}\b"))


def test_signing_in_returns_to_the_requested_page(stranger: BrowserTab, story: DemoSteps) -> None:
    page = stranger.go("/pipelines?tab=board")
    stranger.sign_in(password="not-the-password-1")
    expect(page.get_by_role("alert")).to_contain_text("Wrong e-mail or password")
    stranger.sign_in()
    expect(page.get_by_role("heading", name="Pipelines")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/pipelines\?tab=board$"))


def test_an_expired_session_loses_nothing_that_was_typed(
    stranger: BrowserTab, story: DemoSteps
) -> None:
    page = stranger.go("/services/new")
    stranger.sign_in()
    field(page, "Name").fill("half-written")
    chosen(page, "Repository").fill(story.stage.repository.url)
    chosen(page, "Cluster").fill("dev")
    field(page, "Default namespace").fill("half")
    expect(page.get_by_role("button", name="Create service")).to_be_enabled()
    page.context.clear_cookies()
    page.get_by_role("button", name="Create service").click()
    dialog = page.get_by_role("dialog", name="Your session has ended")
    expect(dialog).to_be_visible()
    stranger.sign_in()
    expect(dialog).to_be_hidden()
    expect(field(page, "Name")).to_have_value("half-written")


def test_the_fleet_shows_what_goes_wrong_without_being_asked(
    ada: BrowserTab, story: DemoSteps
) -> None:
    """A commit that fails to render appears with its reason, and disappears after the fix. The link
    leads to the cause. Keyboard only."""
    page = ada.go("/")
    wrong = page.get_by_role("region", name="Needs attention")
    expect(wrong).to_contain_text("none")
    commit(story, {"dev/broken.yaml": "kind: [\n"}, "Break dev")
    expect(wrong.get_by_role("link", name="dev/shop")).to_be_visible()
    expect(wrong).to_contain_text("broken.yaml, line 2")
    keys = Keys(page)
    keys.use(wrong.get_by_role("link", name="dev/shop"))
    expect(page.get_by_role("heading", name="shop")).to_contain_text("Failed")
    expect(page.get_by_role("main")).to_contain_text("broken.yaml, line 2")
    expect(page.get_by_role("main")).to_contain_text("A retry cannot help.")
    keys.turn("f", "Fleet")
    commit(story, {"dev/broken.yaml": None}, "Mend dev")
    expect(wrong).to_contain_text("none")


def test_filters_stand_in_the_address(ada: BrowserTab, story: DemoSteps) -> None:
    page = ada.go("/")
    page.get_by_role("heading", name="Fleet").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("nothing-is-called-so")
    expect(page.get_by_role("heading", name="No matching services")).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?q=nothing-is-called-so$"))


def test_the_fleet_of_a_past_moment(ada: BrowserTab, story: DemoSteps) -> None:
    """The slider shows a past time, and the page marks it as past."""
    page = ada.go("/")
    expect(page.locator(".travel .live")).to_be_visible()
    page.get_by_label("Time range").select_option(label="last hour")
    slider = page.get_by_role("slider")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile(r"at="))
    page.get_by_role("button", name="Back to live").click()
    expect(page.locator(".travel .live")).to_be_visible()


def test_from_the_palette_to_a_live_object(ada: BrowserTab, story: DemoSteps) -> None:
    """The command palette opens a service; its tree leads to an object and its YAML."""
    page = ada.go("/")
    page.get_by_role("heading", name="Fleet").wait_for()
    page.keyboard.press("Control+k")
    page.keyboard.type("dev/shop"[4:])
    expect(page.get_by_role("option", name="dev/shop")).to_be_visible()
    page.get_by_role("option", name="dev/shop").click()
    expect(page.get_by_role("heading", name="shop")).to_be_visible()
    page.get_by_role("tab", name=re.compile("Objects")).click()
    tree = page.get_by_role("region", name="Objects")
    expect(tree.get_by_text("ReplicaSet")).to_be_visible()
    tree.get_by_role("link", name="web", exact=True).first.press("Enter")
    image = re.compile(r"image: registry\.example\.org/shop:\d")
    expect(page.locator(".cm-content")).to_contain_text(image)
    page.get_by_role("tab", name="Events").click()
    expect(page.get_by_role("region", name="Events")).to_contain_text("ScalingReplicaSet")
    page.go_back()
    expect(page.get_by_role("heading", name="shop")).to_be_visible()


@pytest.fixture
def recorded(story: DemoSteps) -> None:
    """Gives the administrator a role that records sessions."""
    role = {
        "name": "recorded",
        "rules": [{"verbs": ["CONNECT"], "kinds": ["CLUSTER"]}],
        "kubernetes": {"record": True},
    }
    story.stage.ask("mutation ($a: RoleAttributes!) { createRole(attributes: $a) { id } }", a=role)
    story.stage.ask(
        "mutation ($email: String!) { createRoleBinding(attributes: "
        '{role: "recorded", scope: "installation", user: $email}) { id } }',
        email=EMAIL,
    )


def test_logs_of_pods_and_a_shell(ada: BrowserTab, story: DemoSteps, recorded: None) -> None:
    """Logs can be searched; a shell works through the Kubernetes proxy and is replayed."""
    page = ada.go(f"/services/{story.services['dev']}?tab=logs")
    lines = page.get_by_role("region", name="Log lines")
    expect(lines).to_contain_text("line 100 of web-")
    page.get_by_label("Search in logs").fill("line 42 ")
    expect(page.get_by_role("status").filter(has_text="1 line of 1 pod")).to_be_visible()
    page.get_by_role("tab", name=re.compile("Objects")).click()
    page.get_by_role("link", name=re.compile(r"^web-\w+-\w+$")).click()
    page.get_by_role("tab", name="Shell").click()
    page.get_by_role("button", name="Open shell").click()
    screen = page.locator(".xterm")
    screen.wait_for()
    expect(page.locator(".xterm-helper-textarea")).to_be_focused()
    page.keyboard.type("echo hello")
    page.keyboard.press("Enter")
    expect(screen).to_contain_text("hello")
    # Leaving the page ends the session.
    ada.turn_to("/audit?kind=REQUEST")
    page.get_by_role("link", name="Play").first.click()
    page.get_by_label("Speed").select_option("16")
    expect(page.locator(".xterm")).to_contain_text("hello")


def test_the_audit_trail_is_filtered_and_exported(ada: BrowserTab, story: DemoSteps) -> None:
    """The URL keeps the filters, and the exported file matches them."""
    page = ada.go("/audit?kind=SIGN_IN")
    page.get_by_label("Actor").fill(EMAIL)
    expect(page).to_have_url(re.compile(r"actor=ada"))
    page.get_by_label("Filter by action or target").fill("signIn")
    expect(page).to_have_url(re.compile(r"q=signIn"))
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Export").press("Enter")
    rows = [json.loads(line) for line in waiting.value.path().read_text().splitlines()]
    found = {(row["kind"], row["actor"], row["action"]) for row in rows}
    assert found == {("sign-in", EMAIL, "signIn")}
    ada.turn_to("/audit")
    expect(page.get_by_label("Actor")).to_have_value("")


def test_a_release_is_approved_and_goes_live(ada: BrowserTab, story: DemoSteps) -> None:
    """The dialog shows the digests to approve, and the board updates live. Keyboard only."""
    page = ada.go("/pipelines")
    keys = Keys(page)
    page.get_by_role("button", name="Approve…").first.wait_for()
    keys.use(page.get_by_role("button", name="Approve…").first)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("sha256:")
    expect(dialog).to_contain_text("added Deployment web")
    expect(dialog).to_contain_text("from this repository")
    keys.use(dialog.get_by_role("button", name="Approve release"))
    expect(dialog).to_be_hidden()
    prod = page.get_by_role("region", name="Stage prod")
    expect(prod).to_contain_text("#", timeout=30_000)
    story.wait_healthy("prod")
    expect(prod.get_by_text("Healthy").first).to_be_visible()


def test_returning_to_an_earlier_state_shows_what_it_changes(
    ada: BrowserTab, story: DemoSteps
) -> None:
    """Rolls back to an earlier revision, which pins the service, and unpins it. Keyboard only."""
    commit(story, shop("1.7"), "Release 1.7")
    service = story.services["dev"]
    page = ada.go(f"/services/{service}?tab=history")
    expect(page.get_by_role("row").filter(has_text="Release 1.7")).to_contain_text(
        "Current", timeout=30_000
    )
    keys = Keys(page)
    keys.use(page.get_by_role("row").filter(has_text="Open the shop").get_by_role("button").first)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("changed")
    expect(dialog).to_contain_text("registry.example.org/shop:1.0")
    keys.use(dialog.get_by_role("button", name="Roll back"))
    expect(page.get_by_text("new commits are ignored")).to_be_visible()
    keys.use(button(page, "Unpin and follow main"))
    expect(page.get_by_text("new commits are ignored")).to_be_hidden()


def test_the_preview_renders_another_branch(ada: BrowserTab, story: DemoSteps) -> None:
    story.stage.repository.commit(shop("9.9"), "Try 9.9", branch="idea")
    page = ada.go(f"/services/{story.services['dev']}?tab=preview")
    keys = Keys(page)
    keys.write(page.get_by_label("Branch, tag or commit"), "idea")
    keys.press("Enter")
    expect(page.get_by_text("registry.example.org/shop:9.9").first).to_be_visible()


def test_a_service_is_defined_and_deleted(ada: BrowserTab, story: DemoSteps) -> None:
    """Form and YAML stay in sync, and the deletion requires the name. Keyboard only."""
    page = ada.go("/services/new")
    keys = Keys(page)
    page.get_by_role("heading", name="New service").wait_for()
    keys.write(chosen(page, "Cluster"), "de")
    expect(page.get_by_text("cluster de not found")).to_be_visible()
    assert page.locator("datalist option[value='dev']").count() == 1
    keys.type("v")
    keys.press("Escape")
    keys.write(chosen(page, "Repository"), story.stage.repository.url)
    keys.press("Escape")
    keys.write(field(page, "Name"), "extra")
    keys.write(field(page, "Default namespace"), "extra")
    keys.write(field(page, "Folder"), "dev")
    expect(page.locator(".cm-content")).to_contain_text("namespace: extra")
    keys.use(page.get_by_role("button", name="Create service"))
    expect(page.get_by_role("heading", name="extra")).to_contain_text("Healthy", timeout=30_000)
    keys.use(page.get_by_role("tab", selected=True), "ArrowLeft")
    keys.use(page.get_by_role("button", name=re.compile("Delete service and")))
    dialog = page.get_by_role("dialog")
    sure = dialog.get_by_role("button", name="Delete service")
    expect(sure).to_be_disabled()
    keys.write(dialog.get_by_role("textbox"), "extra")
    keys.use(sure)
    expect(page.get_by_role("heading", name="Services")).to_be_visible()


@pytest.fixture
def newcomer(stage: DemoEnvironment, tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for one in started:
        one.terminate()
        one.wait()


def test_a_cluster_is_seen_to_arrive(
    ada: BrowserTab, story: DemoSteps, newcomer: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """The page shows the install command, and updates when the agent connects."""
    page = ada.go("/clusters/new")
    field(page, "Name").fill("third")
    field(page, "Tags").fill("region=eu stage=try")
    page.get_by_role("button", name="Register cluster").click()
    shown = page.locator(".secret pre").inner_text()
    found = re.search(r"deployToken=(\S+)", shown)
    assert found is not None
    token = tmp_path / "token"
    token.write_text(found[1])
    expect(page.get_by_role("heading", name="third")).to_contain_text("Waiting for agent")
    address = story.stage.ask("{ installation { agentsPort } }")["installation"]["agentsPort"]
    command = [
        *PROGRAM,
        "agent",
        "--url",
        f"127.0.0.1:{address}",
        "--data",
        str(tmp_path / "state"),
    ]
    command += ["--ca-file", str(story.stage.authority), "--token-file", str(token)]
    command += ["--kubeconfig", str(story.stage.members["dev"].kubeconfig)]
    with (tmp_path / "agent.log").open("wb") as log:
        newcomer.append(subprocess.Popen(command, stdout=log, stderr=log))
    expect(page.get_by_role("link", name="Open cluster")).to_be_visible(timeout=30_000)


def test_a_pipeline_is_judged_while_it_is_written(ada: BrowserTab, story: DemoSteps) -> None:
    pipeline = story.pipeline()["id"]
    page = ada.go(f"/pipelines/{pipeline}/edit")
    save = page.get_by_role("button", name="Save")
    expect(save).to_be_enabled()
    page.get_by_label("Name of stage 2").fill("dev")
    expect(page.get_by_text("duplicate name dev")).to_be_visible()
    expect(save).to_be_disabled()
    page.get_by_label("Name of stage 2").fill("prod")
    expect(save).to_be_enabled()
    page.get_by_role("button", name="Add workflow").last.click()
    expect(page.locator(".cm-content")).to_contain_text("waitSeconds: 60")
    own = page.get_by_role("group", name="Workflow of prod")
    own.get_by_text("Wait: A fixed time passes").click()
    own.get_by_role("spinbutton", name="Seconds").fill("5")
    expect(page.locator(".cm-content")).to_contain_text("waitSeconds: 5")
    own.get_by_role("textbox", name=re.compile("^After")).fill("nothing")
    page.keyboard.press("Tab")
    expect(page.get_by_text('step nothing in "after" not found')).to_be_visible()
    expect(save).to_be_disabled()
    own.get_by_role("button", name="Remove workflow").click()
    expect(save).to_be_enabled()


def test_a_denied_sync_names_the_missing_permission(stranger: BrowserTab, story: DemoSteps) -> None:
    """A viewer gets an error for a sync that names the missing permission, and can sign out."""
    page = stranger.page
    page.set_extra_http_headers({"Authorization": f"Bearer {viewer(story, 'onlooker')}"})
    stranger.go(f"/services/{story.services['dev']}")
    page.get_by_role("button", name="Sync now").click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Permission denied")
    expect(alert).to_contain_text("write")
    stranger.turn_to("/access?tab=sessions")
    page.get_by_role("button", name="Sign out everywhere").click()
    page.get_by_role("dialog").get_by_role("button", name="Sign out everywhere").click()
    expect(page.get_by_label("Password")).to_be_visible()


def test_hostile_strings_stay_text(ada: BrowserTab, story: DemoSteps) -> None:
    """Untrusted names, subjects, messages and tags never become scripts or links."""
    hostile = "<img src=x onerror=alert(1)>javascript:alert(1)"
    commit(
        story,
        {
            "evil/map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: evil\n"
            "  annotations:\n    link.argocd.argoproj.io/external-link: 'javascript:alert(1)'\n"
            "    title: 'title|javascript:alert(1)'\n  labels: {app: evil}\ndata:\n"
            f"  x: '{hostile}'\n"
        },
        f"{hostile} \u202etxt.exe",
    )
    ask = story.stage.ask
    made = ask(
        "mutation ($a: ClusterAttributes!) { createCluster(attributes: $a) { handle } }",
        a={"name": hostile, "tags": [{"name": "owner", "value": "javascript:alert(1)"}]},
    )["createCluster"]
    repository = ask("{ gitRepositories { edges { node { id } } } }")
    service = ask(
        "mutation ($c: ID!, $a: ServiceDeploymentAttributes!) "
        "{ createServiceDeployment(clusterId: $c, attributes: $a) { id } }",
        c=story.stage.members["dev"].id,
        a={
            "name": "evil",
            "namespace": "evil",
            "repositoryId": repository["gitRepositories"]["edges"][0]["node"]["id"],
            "git": {"ref": "main", "folder": "evil"},
        },
    )["createServiceDeployment"]["id"]
    page = ada.go(f"/services/{service}?tab=objects")
    page.get_by_role("link", name="evil", exact=True).click(timeout=30_000)
    expect(page.locator(".cm-content")).to_contain_text("javascript:alert(1)")
    for path in (
        "/clusters",
        f"/clusters/{made['handle']}",
        "/",
        f"/services/{service}?tab=history",
    ):
        ada.go(path)
        page.get_by_role("heading", level=1).wait_for()
        expect(page.locator(".skeleton")).to_have_count(0)
        assert page.locator("a[href^='javascript' i], img[src='x'], script:not([src])").count() == 0


def test_with_the_server_gone_the_page_stays_and_catches_up(
    ada: BrowserTab, story: DemoSteps
) -> None:
    """The page keeps its data, shows a banner with its age, and updates after the reconnect."""
    page = ada.go("/services")
    expect(page.get_by_role("link", name="shop").first).to_be_visible()
    story.stage.kill_control_plane()
    try:
        expect(page.get_by_text("The control plane does not respond")).to_be_visible()
        expect(page.get_by_role("link", name="shop").first).to_be_visible()
    finally:
        story.stage.start_control_plane()
    expect(page.get_by_text("The control plane does not respond")).to_be_hidden()
    expect(page.get_by_role("link", name="shop").first).to_be_visible()


def test_a_server_that_is_silent_is_not_shown_as_live(ada: BrowserTab, story: DemoSteps) -> None:
    """A frozen process, as a network that drops packets, ends no connection."""
    page = ada.go("/")
    expect(page.get_by_text("● Live")).to_be_visible()
    os.kill(story.stage.control_plane_pid, signal.SIGSTOP)
    try:
        expect(page.get_by_text("The control plane does not respond")).to_be_visible(timeout=60_000)
        expect(page.get_by_text("● Live")).to_be_hidden()
    finally:
        os.kill(story.stage.control_plane_pid, signal.SIGCONT)
    expect(page.get_by_text("The control plane does not respond")).to_be_hidden()
    expect(page.get_by_text("● Live")).to_be_visible()


def test_a_token_and_the_way_out(stranger: BrowserTab, story: DemoSteps) -> None:
    page = stranger.go("/access?tab=tokens")
    stranger.sign_in(EMAIL, PASSWORD)
    field(page, "Name").fill("nightly")
    page.get_by_role("button", name="Create token").click()
    expect(page.locator(".secret pre")).to_contain_text("twu_")
    page.get_by_role("tab", name="kubectl").click()
    expect(page.locator("pre.block")).to_contain_text("towline-dev")
    page.get_by_role("tab", name="Sessions").click()
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page.get_by_label("Password")).to_be_visible()
