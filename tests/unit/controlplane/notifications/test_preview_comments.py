"""Comments of previews on pull requests: one for each set and request, and no one else's."""

from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest

from controlplane.generators.model.service_set import Generator, PullRequestGenerator, ServiceSet
from controlplane.generators.ports import ServiceSetStore
from controlplane.notifications.model.commit_status import (
    PreviewRow,
    RepositoryApi,
    comment_marker,
    host_of,
    open_request_numbers,
    parse_comments,
    path_of,
    preview_comment,
)
from controlplane.notifications.operations.preview_comments import PreviewComments
from controlplane.notifications.sinks.github import GithubSink
from controlplane.notifications.sinks.gitlab import GitlabSink
from controlplane.services.model.service import OwnerKind
from controlplane.services.ports import ServiceStore
from core.errors import Unavailable
from core.spec.status import Phase, Problem
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_service,
    operations_over_memory,
)
from tests.fakes.outbound import FakeClient

SHA, URL = "a" * 40, "https://github.com/example/fleet.git"
GITHUB, GITLAB = GithubSink("git", "token").api(URL), GitlabSink("git", "token").api(URL)
EU = make_cluster("eu")
SET = ServiceSet(
    "set", "previews", START, START, generator=Generator(requests=PullRequestGenerator("git"))
)
WEB = make_service(
    "web-7",
    EU,
    owner_kind=OwnerKind.SET,
    owner_id="set",
    ref="feature",
    digest="d",
    generation=1,
    observed_generation=1,
    commit_sha=SHA,
    phase=Phase.HEALTHY,
)
OURS = comment_marker("set")


@dataclass
class Forge:
    """One open and one closed request of a commit, and the comments on the open one."""

    comments: dict[int, str] = field(default_factory=dict)
    foreign: set[int] = field(default_factory=set)
    requests: Any = None
    writes: list[str] = field(default_factory=list)
    refused_status: int = 403

    def reply(self, method: str, url: str, body: bytes) -> tuple[int, object]:
        if url in (GITHUB.pull_requests_url(SHA), GITLAB.pull_requests_url(SHA)):
            both = {"number": 7, "iid": 7}
            found = [{**both, "state": "open"}, {"number": 8, "iid": 8, "state": "closed"}]
            return self.requests or (200, found)
        if method == "GET":
            page = int(url.rpartition("=")[2])
            listed = list(self.comments.items())[50 * (page - 1) : 50 * page]
            return 200, [{"id": id, "body": text} for id, text in listed]
        if method == "POST":
            self.comments[len(self.comments) + 100] = orjson.loads(body)["body"]
        elif int(url.rpartition("/")[2]) in self.foreign:
            return self.refused_status, {}
        else:
            self.comments[int(url.rpartition("/")[2])] = orjson.loads(body)["body"]
        self.writes.append(method)
        return 200, {}


@pytest.fixture
def forge() -> Forge:
    return Forge()


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(EU, SET, WEB)
    return world


async def update(
    world: MemoryOperations, forge: Forge, host: RepositoryApi = GITHUB, repository: str = "git"
) -> FakeClient:
    client = FakeClient(replies=forge.reply)
    await PreviewComments(world.context, client).update(host, WEB.id, repository, SHA)
    return client


@pytest.mark.parametrize(("host", "verb"), [(GITHUB, "PATCH"), (GITLAB, "PUT")])
async def test_a_request_has_one_comment_that_is_kept_up_to_date(
    world: MemoryOperations, forge: Forge, host: RepositoryApi, verb: str
) -> None:
    await update(world, forge, host)
    (first,) = forge.comments.values()
    assert first.startswith(OURS)
    assert f"| `web-7` | `eu` | healthy | `{SHA[:12]}` |" in first
    await update(world, forge, host)
    assert forge.writes == ["POST"], "an equal comment is not written again"
    async with world.store.write() as tx:
        await tx[ServiceStore].put(WEB.changed(render_error="web.yaml: no kind"))
    await update(world, forge, host)
    (second,) = forge.comments.values()
    assert forge.writes == ["POST", verb] and "`web.yaml: no kind`" in second


async def test_a_comment_of_somebody_else_is_left(world: MemoryOperations, forge: Forge) -> None:
    """Another user may have copied ours, marker and all."""
    forge.comments = {1: "hello", 2: f"{OURS} copied"}
    forge.foreign = {2}
    await update(world, forge)
    assert forge.comments[1] == "hello" and forge.comments[2] == f"{OURS} copied"
    assert forge.writes == ["POST"] and len(forge.comments) == 3


async def test_a_host_that_fails_to_change_a_comment_is_asked_again(
    world: MemoryOperations, forge: Forge
) -> None:
    forge.comments = {1: f"{OURS} old"}
    forge.refused_status = 500
    forge.foreign = {1}
    with pytest.raises(Unavailable, match="returned 500"):
        await update(world, forge)
    assert forge.comments == {1: f"{OURS} old"}


async def test_one_page_of_comments_is_read_once(world: MemoryOperations, forge: Forge) -> None:
    client = await update(world, forge)
    assert sum("page=" in url for method, url in client.requests if method == "GET") == 1


@pytest.mark.parametrize(
    ("phase", "cell"),
    [(Phase.FAILED, "failed: `crashed`"), (Phase.APPLYING, "stale")],
)
async def test_a_comment_tells_the_problem_of_a_failed_service(
    world: MemoryOperations, forge: Forge, phase: Phase, cell: str
) -> None:
    async with world.store.write() as tx:
        await tx[ServiceStore].put(WEB.changed(phase=phase, problems=(Problem("crashed"),)))
    await update(world, forge)
    (text,) = forge.comments.values()
    assert f"| {cell} |" in text


def test_open_requests_of_both_hosts_are_read() -> None:
    listing = [
        {"number": 3, "state": "open"},
        {"number": 4, "state": "closed"},
        {"id": 70, "iid": 7, "state": "opened"},
        {"id": 80, "iid": 8, "state": "merged"},
    ]
    assert open_request_numbers(listing) == [3, 7]
    assert parse_comments([{"id": "5", "body": None}]) == [(5, "")]


async def test_a_comment_is_found_on_a_later_page(world: MemoryOperations, forge: Forge) -> None:
    forge.comments = {number: "talk" for number in range(1, 60)} | {99: f"{OURS} old"}
    await update(world, forge)
    assert forge.writes == ["PATCH"] and "Preview by `previews`" in forge.comments[99]


async def test_comments_are_read_to_a_limit(world: MemoryOperations, forge: Forge) -> None:
    forge.comments = dict.fromkeys(range(1, 1_000), "talk")
    client = await update(world, forge)
    assert sum("page=" in url for method, url in client.requests if method == "GET") == 10


@pytest.mark.parametrize("status", [404, 422])
async def test_a_commit_that_the_host_does_not_know_has_no_comment(
    world: MemoryOperations, forge: Forge, status: int
) -> None:
    forge.requests = (status, {})
    await update(world, forge)
    assert forge.comments == {}


@pytest.mark.parametrize("answer", [(500, {}), (200, {"x": 1}), (200, ["x"]), (200, [{"a": 1}])])
async def test_a_host_that_answers_nonsense_is_asked_again(
    world: MemoryOperations, forge: Forge, answer: tuple[int, object]
) -> None:
    forge.requests = answer
    with pytest.raises(Unavailable):
        await update(world, forge)
    assert forge.comments == {}


@pytest.mark.parametrize(
    "columns",
    [{"owner_kind": OwnerKind.GLOBAL}, {"owner_kind": None, "owner_id": None}, {"owner_id": "no"}],
)
async def test_a_service_of_no_preview_comments_nowhere(
    world: MemoryOperations, forge: Forge, columns: dict[str, Any]
) -> None:
    async with world.store.write() as tx:
        await tx[ServiceStore].put(replace(WEB, **columns))
    assert (await update(world, forge)).requests == []


async def test_a_preview_of_another_repository_comments_nowhere(
    world: MemoryOperations, forge: Forge
) -> None:
    assert (await update(world, forge, repository="other")).requests == []
    async with world.store.write() as tx:
        await tx[ServiceSetStore].change("set", generator=Generator())
    assert (await update(world, forge)).requests == []


async def test_only_services_of_the_branch_are_in_the_comment(
    world: MemoryOperations, forge: Forge
) -> None:
    other = make_service("web-9", EU, owner_kind=OwnerKind.SET, owner_id="set", ref="other")
    sibling = make_service("api-7", EU, owner_kind=OwnerKind.SET, owner_id="set", ref="feature")
    await world.given(other, sibling)
    await update(world, forge)
    (text,) = forge.comments.values()
    assert text.index("`api-7`") < text.index("`web-7`") and "web-9" not in text


def test_no_text_of_a_cluster_leaves_its_cell() -> None:
    """Mentions, links and table cells in names and reasons stay code."""
    reason = "`|\n@root [x](https://evil.example.org) " + "x" * 300
    text = preview_comment("s", "a|b`c", [PreviewRow("web", "eu", "FAILED", SHA, reason)])
    (row,) = [line for line in text.splitlines() if "web" in line]
    assert row.count("|") == 5 and row.count("`") == 8
    assert "Preview by `a b c`:" in text
    assert len(row) < 300


def test_a_comment_has_at_most_fifty_rows() -> None:
    rows = [PreviewRow(f"s{number:03}", "eu", "HEALTHY", SHA) for number in range(1_060)]
    text = preview_comment("s", "previews", reversed(rows))
    lines = text.splitlines()
    assert sum(line.startswith("| `s") for line in lines) == 50
    assert "`s000`" in lines[5] and lines[-1] == "and 1,010 more"
    assert not preview_comment("s", "previews", rows[:50]).endswith("more")


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("https://github.com/example/fleet.git", "github.com", "example/fleet"),
        ("ssh://git@git.example.org:22/a/b/c.git", "git.example.org", "a/b/c"),
        ("git@github.com:example/fleet.git", "github.com", "example/fleet"),
        ("github.com:example/fleet", "github.com", "example/fleet"),
    ],
)
def test_a_repository_url_has_a_host_and_a_path(url: str, host: str, path: str) -> None:
    assert (host_of(url), path_of(url)) == (host, path)


def test_each_host_has_its_own_addresses() -> None:
    enterprise = GithubSink("git", "token").api("https://git.example.org/a/b.git")
    assert enterprise.base == "https://git.example.org/api/v3/repos/a/b"
    assert GITHUB.base == "https://api.github.com/repos/example/fleet"
    assert GITLAB.base == "https://github.com/api/v4/projects/example%2Ffleet"
    assert GITLAB.comment(7, 3) == ("PUT", f"{GITLAB.base}/merge_requests/7/notes/3")
    assert GITHUB.comment(7, 3) == ("PATCH", f"{GITHUB.base}/issues/comments/3")
    assert "token" not in repr(GITHUB) and "token" not in repr(GithubSink("git", "token"))
