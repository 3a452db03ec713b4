"""The cockpit of the terminal, over a fleet in memory."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from queue import Queue

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, RichLog, Static

from core.errors import Forbidden, Invalid, NotFound, Unavailable
from core.json_object import JsonObject
from tests.fakes.pseudo_terminal import pseudo_terminal
from towline.cli.cockpit.app import Cockpit
from towline.cli.cockpit.changes import ChangeConfirmation
from towline.cli.cockpit.fleet import FleetIndex
from towline.cli.cockpit.jump import KindTarget, parse_kind_target
from towline.cli.cockpit.kind_screen import KindScreen
from towline.cli.cockpit.line_list import LineList
from towline.cli.cockpit.object_actions import ActionMenu
from towline.cli.cockpit.prompt import TextPrompt
from towline.cli.cockpit.service_screen import ServiceScreen
from towline.cli.cockpit.source import (
    ObjectState,
    ObjectTable,
    OfferedAction,
    TableRow,
)
from towline.cli.cockpit.workload_actions import WorkloadAction, actions_for
from towline.cli.services.generated import (
    ChangedService,
    Revision,
    ServiceDetails,
    ServiceDetailsComponents,
    ServiceEvent,
    ServiceRow,
)
from towline.cli.services.object_names import ObjectName

NAMES = st.text("abc-", min_size=1, max_size=4)


def row(cluster: str, name: str, status: str = "HEALTHY", message: str = "") -> ServiceRow:
    return {
        "id": f"{cluster}/{name}",
        "name": name,
        "status": status,
        "sha": "0123456789abcdef",
        "commitsBehind": None,
        "drifted": 0,
        "message": message,
        "follows": "main",
        "cluster": {"id": cluster, "handle": cluster, "pingedAt": None},
        "errors": [],
    }


class FakeFleet:
    """Services in memory; keeps what was asked of it."""

    def __init__(self, *rows: ServiceRow) -> None:
        self.rows = list(rows)
        self.messages: Queue[Sequence[ChangedService] | Exception] = Queue()
        self.asked: list[tuple[str, ...]] = []
        self.refusal: Exception | None = None
        self.earlier: Revision | None = None
        self.component: ServiceDetailsComponents = {
            "group": "",
            "kind": "Pod",
            "namespace": "shop",
            "name": "web-1",
            "state": "FAILED",
            "synced": True,
            "message": "image not found",
            "ownerUid": None,
            "updatedAt": "2026-01-01T00:00:00Z",
        }
        self.live: JsonObject = {"kind": "Pod", "metadata": {"name": "web-1", "uid": "u1"}}
        """The component in its cluster."""
        self.lacks: dict[str, str] = {}
        """Missing permissions by the ids of actions."""
        self.table = ObjectTable(("Name", "Status"), (), 0)
        """Objects of every kind."""
        self.unreadable: list[Exception] = []
        """Errors of the next readings."""
        self.pages_wait = threading.Event()
        self.pages_wait.set()
        self.connects = threading.Event()
        self.connects.set()

    def services(self) -> Iterator[ServiceRow]:
        if self.unreadable:
            raise self.unreadable.pop()
        rows = list(self.rows)
        self.pages_wait.wait(30)
        yield from rows

    def changes(self, since: str | None) -> Iterator[Sequence[ChangedService]]:
        self.asked.append(("changes", since or ""))
        self.connects.wait(30)
        yield []
        while True:
            found = self.messages.get()
            if isinstance(found, Exception):
                raise found
            yield found

    def service(self, id: str) -> ServiceDetails:
        found = next(row for row in self.rows if row["id"] == id)
        service: ServiceDetails = {**found, "components": [self.component]}  # ty: ignore[missing-typed-dict-key]
        return service

    def events(self, id: str) -> list[ServiceEvent]:
        return []

    def objects(self, handle: str, kind: str, namespace: str) -> ObjectTable:
        if self.refusal:
            raise self.refusal
        self.asked.append(("objects", handle, kind, namespace))
        return self.table

    def manifest(self, handle: str, component: ObjectName) -> str:
        return f"kind: {component['kind']}\n\x1b[31mred"

    def log(self, handle: str, namespace: str, pod: str) -> Iterator[str]:
        yield f"{handle}/{namespace}/{pod} says \x1b]0;hello"

    def kubectl(self, handle: str, words: Sequence[str]) -> int:
        if self.refusal:
            raise self.refusal
        self.asked.append(("kubectl", handle, *words))
        return 0

    def object_state(self, handle: str, component: ObjectName) -> ObjectState:
        fitting = [action for action in actions_for(component) if action.applies(self.live)]
        offered = [OfferedAction(action, self.lacks.get(action.id, "")) for action in fitting]
        return ObjectState(self.live, "/api/v1/namespaces/shop/pods", offered)

    def run_action(
        self, handle: str, state: ObjectState, action: WorkloadAction, replicas: int
    ) -> None:
        if self.refusal:
            raise self.refusal
        self.asked.append((action.id, handle, state.live["metadata"]["name"], str(replicas)))

    def action_effect(
        self, handle: str, state: ObjectState, action: WorkloadAction, replicas: int
    ) -> list[str]:
        if self.refusal:
            raise self.refusal
        return [f"{action.id} in {handle} changes the \x1b[32mobject\x1b[0m"]

    def sync_effect(self, id: str) -> list[str]:
        return [f"sync changes {id}"]

    def revision_effect(self, id: str, digest: str) -> list[str]:
        return [f"{digest} changes {id}"]

    def sync(self, id: str) -> None:
        if self.refusal:
            raise self.refusal
        self.asked.append(("sync", id))

    def previous(self, id: str) -> Revision | None:
        return self.earlier

    def roll_back(self, id: str, revision_id: str) -> None:
        self.asked.append(("roll_back", id, revision_id))

    def unpin(self, id: str) -> None:
        self.asked.append(("unpin", id))

    def page(self, id: str) -> str:
        return f"https://towline.example.org/services/{id}"


def changed(at: str, id: str, payload: ServiceRow | None) -> ChangedService:
    return {"id": id, "at": at, "payload": payload}


async def shown(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    """Waits until something is on the screen."""
    async with asyncio.timeout(20):
        while not holds():
            await pilot.pause(0.01)


def labels(app: Cockpit) -> list[str]:
    return [line.label for line in app.screen_stack[1].query_one(LineList).items]


def summary(app: Cockpit) -> str:
    return str(app.screen_stack[1].query_one("#summary", Static).content)


async def opened(pilot: Pilot[None], app: Cockpit, services: int) -> None:
    await shown(pilot, lambda: len(app.screen_stack) > 1 and f" {services} service" in summary(app))


@given(
    st.lists(st.tuples(NAMES, NAMES, st.sampled_from(["put", "remove"]))),
    st.sampled_from([1, 2, 3, 128]),
)
def test_a_fleet_holds_the_last_state_of_each_service_in_order(
    acts: list[tuple[str, str, str]], max_block: int
) -> None:
    fleet, expected = FleetIndex(max_block=max_block), {}
    for number, (cluster, name, act) in enumerate(acts):
        service = row(cluster, name, message=str(number), status="FAILED")
        if act == "put":
            fleet.put(service)
            expected[cluster, name] = str(number)
        else:
            fleet.remove(service["id"])
            expected.pop((cluster, name), None)
    found = [((line.cluster, line.name), line.problem) for line in fleet.matching()]
    assert found == sorted(expected.items())
    assert len(fleet) == len(fleet.matching()) == len(expected)
    for number in ("1", "3"):
        fitting = {key for key, message in expected.items() if number in f"{key} {message}"}
        assert {(line.cluster, line.name) for line in fleet.matching(number)} >= fitting


def test_lines_stay_as_they_were_while_the_fleet_changes() -> None:
    fleet = FleetIndex(max_block=2)
    for name in ("a", "b", "c", "d", "e"):
        fleet.put(row("eu", name))
    every, some = fleet.matching(), fleet.matching("eu/c")
    fleet.remove(row("eu", "a")["id"])
    fleet.put(row("eu", "bb"))
    assert [line.name for line in every] == ["a", "b", "c", "d", "e"]
    assert [line.name for line in some] == ["c"]
    assert [line.name for line in fleet.matching()] == ["b", "bb", "c", "d", "e"]


def test_a_filter_matches_all_words_and_the_path_of_a_service() -> None:
    fleet = FleetIndex()
    for service in (row("eu", "web"), row("eu", "db", "FAILED", "no disk"), row("us", "web")):
        fleet.put(service)
    assert [line.label for line in fleet.matching("EU/w")] == ["eu/web"]
    assert [line.label for line in fleet.matching("disk db")] == ["eu/db"]
    assert [line.label for line in fleet.matching(problems=True)] == ["eu/db"]


async def test_the_list_follows_changes_and_goes_on_after_a_lost_connection() -> None:
    source = FakeFleet(row("eu", "web"), row("us", "web"))
    app = Cockpit(source, retry_seconds=0.05)
    async with app.run_test() as pilot:
        await opened(pilot, app, 2)
        source.messages.put([changed("t1", "new", row("eu", "api", "FAILED"))])
        await shown(pilot, lambda: labels(app) == ["eu/api", "eu/web", "us/web"])
        source.messages.put([changed("t2", "us/web", None)])
        await shown(pilot, lambda: labels(app) == ["eu/api", "eu/web"])
        source.connects.clear()
        source.messages.put(Unavailable("gone"))
        await shown(pilot, lambda: "not live" in summary(app))
        await shown(pilot, lambda: ("changes", "t2") in source.asked)
        source.connects.set()
        await shown(pilot, lambda: "not live" not in summary(app))


async def test_a_reading_that_fails_is_repeated() -> None:
    source = FakeFleet(row("eu", "web"))
    source.unreadable.append(Unavailable("busy"))
    app = Cockpit(source, retry_seconds=0.05)
    async with app.run_test() as pilot:
        await opened(pilot, app, 1)
        await shown(pilot, lambda: "reading" not in summary(app))


async def test_a_connection_that_cannot_go_on_reads_all_again() -> None:
    """A change that came during this reading outlives what was read before it."""
    source = FakeFleet(row("eu", "web"), row("us", "web"))
    app = Cockpit(source, retry_seconds=0.05)
    async with app.run_test() as pilot:
        await opened(pilot, app, 2)
        await shown(pilot, lambda: "reading" not in summary(app))
        source.messages.put([changed("t1", "eu/web", row("eu", "web", "FAILED"))])
        source.messages.put(Unavailable("gone"))
        await shown(pilot, lambda: ("changes", "t1") in source.asked)
        del source.rows[1]
        source.pages_wait.clear()
        source.messages.put(Unavailable("more than 5,000 changes: read the list again"))
        await shown(pilot, lambda: source.asked.count(("changes", "")) == 2)
        await shown(pilot, lambda: "reading" in summary(app))
        source.messages.put([changed("t2", "new", row("eu", "api"))])
        await shown(pilot, lambda: "eu/api" in labels(app))
        source.pages_wait.set()
        await shown(pilot, lambda: labels(app) == ["eu/api", "eu/web"])


async def test_keys_filter_open_and_change_services() -> None:
    source = FakeFleet(row("eu", "db"), row("eu", "web", "FAILED"), row("us", "api"))
    app = Cockpit(source, retry_seconds=0.05)
    async with app.run_test() as pilot:
        await opened(pilot, app, 3)
        await pilot.press("slash", *"web", "enter")
        assert labels(app) == ["eu/web"]
        await pilot.press("s", "n")
        await pilot.press("s", "y")
        await shown(pilot, lambda: ("sync", "eu/web") in source.asked)
        assert source.asked.count(("sync", "eu/web")) == 1
        await pilot.press("escape")
        assert len(labels(app)) == 3
        await pilot.press("p")
        assert labels(app) == ["eu/web"]
        await pilot.press("colon", *"us/api", "enter")
        await shown(pilot, lambda: "us/api" in str(app.screen.query(Static).first().content))
        await pilot.press("q")
        await pilot.press("q")
    assert app.return_code == 0


async def effect(pilot: Pilot[None], app: Cockpit) -> str:
    """Waits for the effect in a question."""
    await shown(pilot, lambda: isinstance(app.screen, ChangeConfirmation))
    text = app.screen.query_one("#effect", Static)
    await shown(pilot, lambda: "Checking" not in str(text.content))
    return str(text.content)


async def test_a_question_shows_what_a_change_of_a_service_would_do() -> None:
    source = FakeFleet(row("eu", "web"))
    source.earlier = {
        "id": "r1",
        "sha": "89abcdef",
        "digest": "sha256:1",
        "author": "Ada",
        "subject": "Use \x1b[31mred",
        "committedAt": "2026-01-01T00:00:00Z",
        "insertedAt": "2026-01-01T00:00:00Z",
        "git": {"ref": "main", "folder": ""},
    }
    app = Cockpit(source, retry_seconds=0.05)
    async with app.run_test() as pilot:
        await component_opened(pilot, app)
        for key, change in (("s", "sync"), ("u", "sync"), ("b", "sha256:1")):
            await pilot.press(key)
            assert await effect(pilot, app) == f"{change} changes eu/web"
            await pilot.press("y")
        await shown(pilot, lambda: ("roll_back", "eu/web", "r1") in source.asked)
        assert ("sync", "eu/web") in source.asked and ("unpin", "eu/web") in source.asked


async def test_a_service_leads_to_its_objects_their_manifests_and_logs() -> None:
    source = FakeFleet(row("eu", "web", "FAILED", "image not found"))
    app = Cockpit(source, retry_seconds=0.05)
    async with app.run_test() as pilot:
        await opened(pilot, app, 1)
        await pilot.press("enter")
        await shown(pilot, lambda: bool(app.screen.query("#state")))
        await shown(pilot, lambda: len(app.screen.query_one(LineList).items) == 1)
        assert "image not found" in str(app.screen.query_one("#state", Static).content)
        for key, text in (("enter", "kind: Pod"), ("l", "eu/shop/web-1 says")):
            await pilot.press(key)
            await shown(pilot, lambda: bool(app.screen.query(RichLog)))
            log = app.screen.query_one(RichLog)
            await shown(pilot, lambda log=log: bool(log.lines))
            lines = "\n".join(line.text for line in log.lines)
            assert text in lines
            assert "\x1b" not in lines
            await pilot.press("escape")


@pytest.mark.parametrize("error", [Forbidden("you may not"), Unavailable("[no] answer")])
async def test_a_refused_change_is_shown(error: Exception) -> None:
    source = FakeFleet(row("eu", "web"))
    source.refusal = error
    app = Cockpit(source, retry_seconds=0.05)
    async with app.run_test() as pilot:
        await opened(pilot, app, 1)
        await pilot.press("s", "y")
        await shown(pilot, lambda: any(str(error) in note.message for note in app._notifications))


def options(app: Cockpit) -> list[tuple[str, bool]]:
    """The actions of the menu, and whether each is disabled."""
    return [
        (str(option.prompt), option.disabled) for option in app.screen.query_one(OptionList).options
    ]


async def component_opened(pilot: Pilot[None], app: Cockpit) -> None:
    await opened(pilot, app, 1)
    await pilot.press("enter")
    await shown(pilot, lambda: bool(app.screen.query("#state")))
    await shown(pilot, lambda: len(app.screen.query_one(LineList).items) == 1)


def notices(app: Cockpit) -> list[str]:
    return [note.message for note in app._notifications]


def of_kind(source: FakeFleet, group: str, kind: str, spec: JsonObject) -> None:
    source.component["group"], source.component["kind"] = group, kind
    source.live = {"kind": kind, "metadata": {"name": "web", "uid": "u1"}, "spec": spec}


async def test_an_action_on_an_object_runs_after_a_question() -> None:
    source = FakeFleet(row("eu", "web", "FAILED"))
    app = Cockpit(source, retry_seconds=0.05)
    async with app.run_test() as pilot:
        await component_opened(pilot, app)
        for answer in ("n", "y"):
            await pilot.press("x")
            await shown(pilot, lambda: isinstance(app.screen, ActionMenu))
            assert options(app) == [("Delete Pod", False)]
            await pilot.press("enter")
            await shown(pilot, lambda: isinstance(app.screen, ChangeConfirmation))
            question = str(app.screen.query_one(Static).content)
            assert "Delete Pod shop/web-1 in eu?" in question
            assert "No controller owns this Pod" in question
            assert await effect(pilot, app) == "delete in eu changes the object"
            assert not any(asked[0] == "delete" for asked in source.asked)
            await pilot.press(answer)
        await shown(pilot, lambda: ("delete", "eu", "web-1", "0") in source.asked)
        await shown(pilot, lambda: "Done." in notices(app))


async def test_a_workload_is_scaled_to_a_number() -> None:
    source = FakeFleet(row("eu", "web"))
    of_kind(source, "apps", "Deployment", {"replicas": 2})
    app = Cockpit(source, retry_seconds=0.05)
    async with app.run_test() as pilot:
        await component_opened(pilot, app)
        await pilot.press("x")
        await shown(pilot, lambda: isinstance(app.screen, ActionMenu))
        titles = ["Restart Deployment", "Scale Deployment", "Pause Deployment"]
        assert options(app) == [(title, False) for title in titles]
        await pilot.press("down", "enter")
        await shown(pilot, lambda: isinstance(app.screen, TextPrompt))
        await pilot.press("end", "backspace", "enter")
        assert isinstance(app.screen, TextPrompt)
        await pilot.press("7", "enter")
        await shown(pilot, lambda: isinstance(app.screen, ChangeConfirmation))
        question = str(app.screen.query_one(Static).content)
        assert "Scale Deployment shop/web-1 in eu to 7?" in question
        assert "self-heal can revert" in question
        await pilot.press("y")
        await shown(pilot, lambda: ("scale", "eu", "web", "7") in source.asked)


async def test_an_action_without_its_permission_is_disabled_with_the_reason() -> None:
    source = FakeFleet(row("eu", "web"))
    of_kind(source, "batch", "CronJob", {"suspend": True})
    source.lacks["run"] = "you need the permission create jobs in shop"
    app = Cockpit(source, retry_seconds=0.05)
    async with app.run_test() as pilot:
        await component_opened(pilot, app)
        await pilot.press("x")
        await shown(pilot, lambda: isinstance(app.screen, ActionMenu))
        refused = "Run CronJob now: you need the permission create jobs in shop"
        assert options(app) == [("Resume CronJob", False), (refused, True)]
        await pilot.press("down", "enter")
        await shown(pilot, lambda: isinstance(app.screen, ChangeConfirmation))
        assert "Resume CronJob" in str(app.screen.query_one(Static).content)


async def test_a_refused_action_and_a_kind_without_actions_are_said() -> None:
    source = FakeFleet(row("eu", "web"))
    source.refusal = Forbidden("pods is forbidden")
    app = Cockpit(source, retry_seconds=0.05)
    async with app.run_test() as pilot:
        await component_opened(pilot, app)
        await pilot.press("x")
        await shown(pilot, lambda: isinstance(app.screen, ActionMenu))
        await pilot.press("enter")
        assert await effect(pilot, app) == "Could not determine the effect: pods is forbidden"
        await pilot.press("y")
        await shown(pilot, lambda: "pods is forbidden" in notices(app))
        of_kind(source, "", "ConfigMap", {})
        await pilot.press("x")
        await shown(pilot, lambda: "No actions for ConfigMap." in notices(app))


async def test_a_shell_and_an_editor_get_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    source = FakeFleet(row("eu", "web"))
    app = Cockpit(source)
    async with app.run_test() as pilot:
        await component_opened(pilot, app)
        await pilot.press("h")
        # A test has no terminal to give away.
        await shown(pilot, lambda: "cannot use this terminal" in "".join(notices(app)))
        monkeypatch.setattr(Cockpit, "suspend", lambda _: nullcontext())
        await pilot.press("h", "d")
        shell = ("sh", "-c", "command -v bash >/dev/null && exec bash || exec sh")
        assert source.asked[-2:] == [
            ("kubectl", "eu", "-n", "shop", "exec", "-it", "web-1", "--", *shell),
            ("kubectl", "eu", "-n", "shop", "edit", "Pod", "web-1"),
        ]
        source.refusal = Invalid("could not find kubectl on the PATH; install it")
        await pilot.press("d")
        assert "could not find kubectl" in notices(app)[-1]
        source.component = {**source.component, "kind": "Node", "group": "a.b", "namespace": None}
        source.refusal = None
        await shown_kind(pilot, app, "Node")
        await pilot.press("h")
        assert notices(app)[-1] == "Select a pod to open a shell in it."
        await pilot.press("d")
        assert source.asked[-1] == ("kubectl", "eu", "edit", "Node.a.b", "web-1")


def pod(name: str, namespace: str = "shop") -> ObjectName:
    return {"group": "", "kind": "Pod", "namespace": namespace, "name": name}


async def jumped(pilot: Pilot[None], app: Cockpit, text: str) -> str:
    """Types a target after `:`, and returns the title of the screen that opens."""
    await pilot.press("colon")
    await shown(pilot, lambda: isinstance(app.screen, TextPrompt))
    app.screen.query_one(Input).value = text
    await pilot.press("enter")
    await shown(pilot, lambda: not isinstance(app.screen, TextPrompt))
    return str(app.screen.query(Static).first().content)


async def test_any_kind_of_a_cluster_can_be_listed_filtered_and_acted_on() -> None:
    source = FakeFleet(row("eu", "web"))
    rows = [TableRow(pod(name), (name, "Run\x1bning")) for name in ("web-1", "db-1")]
    source.table = ObjectTable(("Name", "Status"), rows, 40)
    app = Cockpit(source, retry_seconds=0.05)
    async with app.run_test() as pilot:
        await opened(pilot, app, 1)
        assert (await jumped(pilot, app, "pods")).startswith("eu: pods  ·  ")
        title = app.screen.query(Static).first()
        found = "eu: pods  ·  2 of 2 objects  ·  40 more: name a namespace"
        await shown(pilot, lambda: str(title.content) == found)
        assert app.screen.query_one(LineList).render_line(1).text.split() == [
            *("shop", "web-1", "Run\\u001bning")
        ]
        await pilot.press("slash", *"DB", "enter")
        assert str(title.content).endswith("  ·  filter: DB")
        await pilot.press("x")
        await shown(pilot, lambda: isinstance(app.screen, ActionMenu))
        await pilot.press("escape", "l")
        await shown(pilot, lambda: bool(app.screen.query(RichLog)))
        assert str(app.screen.query(Static).first().content) == "eu: shop/db-1"
        # Each screen knows its cluster.
        assert (await jumped(pilot, app, "deploy shop")).startswith("eu: deploy in shop")
        assert (await jumped(pilot, app, "nodes @us")).startswith("us: nodes")
        await shown(pilot, lambda: ("objects", "us", "nodes", "") in source.asked)
    assert ("objects", "eu", "pods", "") in source.asked
    assert ("objects", "eu", "deploy", "shop") in source.asked


def burst(app: Cockpit, text: str) -> None:
    """Types a text at once, as a terminal gives the keys of a fast hand: nothing runs between."""
    names = {":": "colon", "/": "slash", "\r": "enter"}
    for key in text:
        app.post_message(events.Key(names.get(key, key), key))


async def test_a_prompt_takes_all_keys_of_a_burst() -> None:
    source = FakeFleet(row("eu", "web"), row("eu", "spot"))
    app = Cockpit(source)
    async with app.run_test() as pilot:
        await opened(pilot, app, 2)
        # On the list, `s` syncs a service and `p` shows only problems.
        burst(app, ":pods\r")
        await shown(pilot, lambda: ("objects", "eu", "pods", "") in source.asked)
        await shown(pilot, lambda: isinstance(app.screen, KindScreen))
        await pilot.press("escape")
        burst(app, "/spot\r")
        title = app.screen.query(Static).first()
        await shown(pilot, lambda: str(title.content) == "1 of 2 services  ·  filter: spot")
        assert isinstance(app.focused, LineList)


async def test_a_line_that_the_user_types_into_takes_the_keys_of_prompts() -> None:
    app = Cockpit(FakeFleet(row("eu", "web")))
    async with app.run_test() as pilot:
        await opened(pilot, app, 1)
        burst(app, "/a:b/c\r")
        title = app.screen.query(Static).first()
        await shown(pilot, lambda: str(title.content).endswith("filter: a:b/c"))
        burst(app, ":eu:/\r")
        await shown(pilot, lambda: notices(app) == ["0 services match 'eu:/'"])


@pytest.mark.parametrize("pasted", [":deploy shop\nnodes", ": deploy shop "])
async def test_a_pasted_target_waits_for_enter(pasted: str) -> None:
    source = FakeFleet(row("eu", "web"))
    app = Cockpit(source)
    async with app.run_test() as pilot:
        await opened(pilot, app, 1)
        app.post_message(events.Paste(pasted))
        await shown(pilot, lambda: isinstance(app.screen, TextPrompt))
        await pilot.press("enter")
        await shown(pilot, lambda: ("objects", "eu", "deploy", "shop") in source.asked)


async def test_a_pasted_filter_filters_and_escape_clears_it() -> None:
    app = Cockpit(FakeFleet(row("eu", "web"), row("eu", "db", "FAILED")))
    async with app.run_test() as pilot:
        await opened(pilot, app, 2)
        title = app.screen.query(Static).first()
        await pilot.press("p")
        app.post_message(events.Paste("/web\n"))
        filtered = "0 of 2 services  ·  filter: web  ·  only problems"
        await shown(pilot, lambda: str(title.content) == filtered)
        await pilot.press("escape")
        assert str(title.content) == filtered
        await pilot.press("escape")
        await shown(pilot, lambda: str(title.content) == "2 of 2 services")


async def test_escape_clears_the_filter_of_a_kind_before_it_leads_back() -> None:
    source = FakeFleet(row("eu", "web"))
    source.table = ObjectTable(("Name",), [TableRow(pod("web-1"), ("web-1",))], 0)
    app = Cockpit(source)
    async with app.run_test() as pilot:
        await opened(pilot, app, 1)
        await jumped(pilot, app, "pods")
        title = app.screen.query(Static).first()
        await pilot.press("slash", *"none")
        await shown(pilot, lambda: "0 of 1 object  ·  filter: none" in str(title.content))
        await pilot.press("escape")
        assert isinstance(app.focused, LineList)
        await pilot.press("escape")
        await shown(pilot, lambda: str(title.content).endswith("1 of 1 object"))
        await pilot.press("escape")
        await shown(pilot, lambda: not isinstance(app.screen, KindScreen))


async def test_a_jump_that_leads_nowhere_says_why() -> None:
    source = FakeFleet(row("eu", "web"))
    app = Cockpit(source, retry_seconds=0.05)
    async with app.run_test() as pilot:
        await opened(pilot, app, 1)
        await jumped(pilot, app, "eu/none")
        assert notices(app) == ["0 services match 'eu/none'"]
        await jumped(pilot, app, "pods a b")
        assert "'pods a b' is not CLUSTER/NAME of a service, or KIND" in notices(app)[-1]
        source.refusal = NotFound("cluster eu has no kind 'x'")
        title = await jumped(pilot, app, "x")
        await shown(pilot, lambda: "cluster eu has no kind 'x'" in notices(app))
        await shown(pilot, lambda: "not read" in str(app.screen.query(Static).first().content))
        assert title.startswith("eu: x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pods", KindTarget("pods", "", "eu")),
        ("deploy.apps shop", KindTarget("deploy.apps", "shop", "eu")),
        ("@us pods shop", KindTarget("pods", "shop", "us")),
        ("pods @us", KindTarget("pods", "", "us")),
    ],
)
def test_a_kind_has_a_namespace_and_a_cluster(text: str, expected: KindTarget) -> None:
    assert parse_kind_target(text, "eu") == expected


@pytest.mark.parametrize("text", ["@us", "pods a b", "pods @us @eu", "pods @"])
def test_a_kind_without_a_name_or_a_cluster_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_kind_target(text, None)


async def test_ports_of_an_object_are_forwarded_by_kubectl(monkeypatch: pytest.MonkeyPatch) -> None:
    source = FakeFleet(row("eu", "web"))
    monkeypatch.setattr(Cockpit, "suspend", lambda _: nullcontext())
    app = Cockpit(source)
    async with app.run_test() as pilot:
        await component_opened(pilot, app)
        await pilot.press("f")
        await shown(pilot, lambda: isinstance(app.screen, TextPrompt))
        app.screen.query_one(Input).value = "8080:80 9090"
        await pilot.press("enter")
        words = ("port-forward", "Pod/web-1", "--", "8080:80", "9090")
        await shown(pilot, lambda: ("kubectl", "eu", "-n", "shop", *words) in source.asked)
        source.component = {**source.component, "kind": "ConfigMap"}
        await shown_kind(pilot, app, "ConfigMap")
        await pilot.press("f")
        assert notices(app)[-1].startswith("Select a pod, a workload")


async def shown_kind(pilot: Pilot[None], app: Cockpit, kind: str) -> None:
    """Waits until the first object of the service has a kind."""
    screen = app.screen
    assert isinstance(screen, ServiceScreen)

    def is_shown() -> bool:
        screen.refresh_objects()
        return screen.query_one(LineList).items[0]["kind"] == kind

    await shown(pilot, is_shown)


_IN_TERMINAL = """
import subprocess
from tests.unit.towline.test_cockpit import FakeFleet, row
from tests.fakes.pseudo_terminal import pseudo_terminal
from towline.cli.cockpit.app import Cockpit

class Fleet(FakeFleet):
    def kubectl(self, handle, words):
        script = "echo in-$0; read line; echo got-$line; exit 3"
        return subprocess.run(["sh", "-c", script, words[4]]).returncode

Cockpit(Fleet(row("eu", "web"))).run()
"""


def test_a_shell_reads_the_keyboard_and_leads_back() -> None:
    """Its output stays on the screen if it failed."""
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "30"}
    program = [sys.executable, "-c", _IN_TERMINAL]
    with pseudo_terminal(program, environment) as terminal:
        terminal.read_until("1 of 1 service")
        terminal.type("\r")
        terminal.read_until("web-1")
        terminal.type("h")
        terminal.read_until("in-web-1")
        terminal.type("hello\r")
        terminal.read_until("got-hello")
        terminal.read_until("Press Enter to return.")
        terminal.type("\r")
        terminal.read_until("MESSAGE")


def test_a_terminal_gives_a_whole_command_at_once() -> None:
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "30"}
    with pseudo_terminal([sys.executable, "-c", _IN_TERMINAL], environment) as terminal:
        terminal.read_until("1 of 1 service")
        terminal.type(":pods shop @us\r")
        terminal.read_until("us: pods in shop")
        terminal.type("/web\r")
        terminal.read_until("filter: web")
