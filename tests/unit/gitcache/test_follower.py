"""Following one repository, on a clock that a test moves."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace

import pytest

from core.errors import AccessDenied, Invalid, Unavailable
from core.identity import RepositoryId
from core.spec.source import GitCredentials, RepositoryKind, RepositorySpec, RepositoryState
from gitcache.ports import NotOwner
from gitcache.sync.follower import (
    HINT_RETRIES,
    FollowerPorts,
    PollIntervals,
    RepositoryFollower,
    pin_name,
)
from tests.fakes.clock import FakeClock
from tests.fakes.gitcache import FakeCoordinator, FakeGit, sha_of

MAIN = "refs/heads/main"
SPEC = RepositorySpec(RepositoryId("r"), "https://git.test/r", frozenset({"main"}))
PACE = PollIntervals(poll=10, poll_with_webhook=100, max_backoff=60)


class Watch:
    """A follower with everything around it."""

    def __init__(self, spec: RepositorySpec = SPEC) -> None:
        self.git = FakeGit()
        self.clock = FakeClock()
        self.coordinator = FakeCoordinator()
        self.states: list[RepositoryState] = []
        source = FollowerPorts(self.git, self.git, self.git, self.coordinator, "here")
        self.follower = RepositoryFollower(spec, source, self.clock, PACE, self.states.append)

    async def start(self) -> None:
        self.follower.start()
        await self.clock.advance(0)

    @property
    def sha(self) -> str | None:
        """The published commit of main."""
        commit = self.states[-1].commits.get("main")
        return commit.sha if commit else None


@pytest.fixture
async def watch() -> AsyncIterator[Watch]:
    watch = Watch()
    yield watch
    await watch.follower.stop()


async def test_a_new_commit_is_fetched_and_published_once(watch: Watch) -> None:
    first = watch.git.push(MAIN, 1)
    await watch.start()
    assert watch.sha == first
    second = watch.git.push(MAIN, 2)
    await watch.clock.advance(12)
    assert watch.sha == second
    await watch.clock.advance(100)
    assert len(watch.states) == 2 and len(watch.git.fetches) == 2
    fetched = [state.fetched_at for state in watch.states]
    assert fetched[0] is not None and fetched[1] is not None and fetched[0] < fetched[1]


async def test_an_unchanged_repository_is_asked_and_nothing_more(watch: Watch) -> None:
    watch.git.push(MAIN, 1)
    await watch.start()
    await watch.clock.advance(110)
    assert 9 <= len(watch.git.polls) <= 13
    assert len(watch.git.fetches) == 1


async def test_after_a_failure_the_last_good_commits_stay(watch: Watch) -> None:
    """A git server that is away must never read as a repository without refs."""
    sha = watch.git.push(MAIN, 1)
    await watch.start()
    watch.git.error = Unavailable("the server is away")
    await watch.clock.advance(12)
    assert watch.states[-1].error == "the server is away"
    assert watch.sha == sha and watch.states[-1].missing == frozenset()
    watch.git.error = None
    await watch.clock.advance(60)
    assert watch.states[-1].error is None and watch.sha == sha


async def test_a_failing_server_is_asked_ever_more_rarely(watch: Watch) -> None:
    watch.git.error = Unavailable("no")
    await watch.start()
    await watch.clock.advance(3600)
    assert len(watch.git.polls) < 400
    assert len(watch.states) == 1


async def test_after_a_recovery_the_next_failure_is_retried_soon(watch: Watch) -> None:
    watch.git.push(MAIN, 1)
    watch.git.error = Unavailable("no")
    await watch.start()
    await watch.clock.advance(600)
    watch.git.error = None
    await watch.clock.advance(70)
    assert watch.states[-1].error is None
    watch.git.error = Unavailable("again")
    while watch.states[-1].error is None:
        await watch.clock.advance(0.5)
    assert watch.states[-1].error == "again"
    watch.git.error = None
    await watch.clock.advance(2)
    assert watch.states[-1].error is None


async def test_another_connection_is_tried_at_once_and_again_soon(watch: Watch) -> None:
    """Somebody corrects the credentials, and the server needs a moment to know them."""
    watch.git.push(MAIN, 1)
    await watch.start()
    assert watch.states[-1].reached
    watch.git.error = AccessDenied("wrong password")
    await watch.clock.advance(600)
    polls = len(watch.git.polls)
    watch.follower.replace(replace(SPEC, credentials=GitCredentials(password="right")))
    await watch.clock.advance(0)
    assert len(watch.git.polls) == polls + 1
    assert not watch.states[-1].reached
    watch.git.error = None
    await watch.clock.advance(5)
    assert watch.states[-1].error is None and watch.states[-1].reached


async def test_after_a_recovery_other_refs_are_taken_up_at_once(watch: Watch) -> None:
    watch.git.push(MAIN, 1)
    dev = watch.git.push("refs/heads/dev", 2)
    watch.git.error = Unavailable("no")
    await watch.start()
    watch.git.error = None
    await watch.clock.advance(5)
    watch.follower.replace(replace(SPEC, refs=frozenset({"main", "dev"})))
    await watch.clock.advance(0)
    assert watch.states[-1].commits["dev"].sha == dev


async def test_a_server_that_names_a_time_is_left_alone_until_then(watch: Watch) -> None:
    watch.git.error = Unavailable("slow down", retry_after=500)
    await watch.start()
    await watch.clock.advance(499)
    assert len(watch.git.polls) == 1


async def test_refs_that_do_not_exist_are_listed_as_missing(watch: Watch) -> None:
    watch.follower.replace(replace(SPEC, refs=frozenset({"main", "nope", "-bad"})))
    watch.git.push(MAIN, 1)
    await watch.start()
    assert watch.states[-1].missing == {"nope", "-bad"}
    assert set(watch.states[-1].commits) == {"main"}


async def test_a_deleted_branch_becomes_missing(watch: Watch) -> None:
    watch.git.push(MAIN, 1)
    await watch.start()
    del watch.git.refs[MAIN]
    await watch.clock.advance(12)
    assert watch.states[-1].missing == {"main"} and watch.sha is None


async def test_a_repository_of_which_nothing_is_in_use_is_asked_once_an_hour() -> None:
    watch = Watch(replace(SPEC, refs=frozenset()))
    watch.git.push(MAIN, 1)
    await watch.start()
    await watch.clock.advance(3000)
    assert watch.git.polls == [["HEAD"]] and watch.git.fetches == []
    assert watch.states[-1].error is None and watch.states[-1].reached
    watch.follower.replace(SPEC)
    await watch.clock.advance(0)
    assert watch.sha == watch.git.refs[MAIN]
    await watch.follower.stop()


@pytest.mark.parametrize(
    ("kind", "url", "reached"),
    [
        (RepositoryKind.HELM, "oci://r.test/charts", False),
        (RepositoryKind.HELM, "https://r.test/charts", True),
        (RepositoryKind.OCI, "oci://r.test/shop", True),
    ],
)
async def test_a_registry_of_charts_is_reached_with_the_first_chart(
    kind: RepositoryKind, url: str, reached: bool
) -> None:
    """It has no answer without the name of one; all others show a wrong URL before."""
    watch = Watch(replace(SPEC, refs=frozenset(), kind=kind, url=url))
    await watch.start()
    assert watch.states[-1].error is None and watch.states[-1].reached is reached
    watch.follower.replace(replace(watch.follower.spec, refs=frozenset({"main"})))
    await watch.clock.advance(0)
    assert watch.states[-1].reached
    await watch.follower.stop()


async def test_the_error_of_an_unused_repository_is_published() -> None:
    watch = Watch(replace(SPEC, refs=frozenset()))
    watch.git.error = AccessDenied("repository not found")
    await watch.start()
    assert watch.states[-1].error == "repository not found" and not watch.states[-1].reached
    assert watch.states[-1].reason == "ACCESS_DENIED"
    watch.git.error = None
    watch.follower.replace(replace(watch.follower.spec, url="https://git.test/right"))
    await watch.clock.advance(0)
    assert watch.states[-1].error is None and watch.states[-1].reached
    assert watch.states[-1].reason == ""
    await watch.follower.stop()


async def test_changes_of_the_services_do_not_hurry_a_failing_server(watch: Watch) -> None:
    """Four hundred services of one repository are deleted one after another."""
    watch.git.error = Unavailable("no")
    folders = [f"app{number}" for number in range(400)]
    watch.follower.replace(replace(SPEC, folders=frozenset(folders)))
    await watch.start()
    await watch.clock.advance(600)
    before = len(watch.git.polls)
    while folders:
        folders.pop()
        refs = frozenset({"main", f"branch{len(folders)}"})
        watch.follower.replace(replace(SPEC, folders=frozenset(folders), refs=refs))
        await watch.clock.advance(0)
    assert len(watch.git.polls) - before <= 1
    watch.git.error = None
    watch.follower.replace(replace(SPEC, credentials=GitCredentials(password="right")))
    await watch.clock.advance(0)
    assert watch.states[-1].error is None


async def test_a_service_that_goes_causes_no_poll(watch: Watch) -> None:
    watch.git.push(MAIN, 1)
    both = replace(SPEC, folders=frozenset({"a", "b"}), refs=frozenset({"main", "dev"}))
    watch.follower.replace(both)
    await watch.start()
    before = len(watch.git.polls)
    watch.follower.replace(replace(SPEC, folders=frozenset({"a"})))
    await watch.clock.advance(0)
    assert len(watch.git.polls) == before


async def test_a_followed_commit_needs_no_poll_and_one_fetch() -> None:
    sha = sha_of(7)
    watch = Watch(replace(SPEC, refs=frozenset({sha})))
    watch.git.served.add(sha)
    await watch.start()
    await watch.clock.advance(100)
    assert watch.states[-1].commits[sha].sha == sha
    assert watch.git.polls == [] and len(watch.git.fetches) == 1
    await watch.follower.stop()


async def test_a_followed_commit_that_the_server_lacks_is_missing_alone(watch: Watch) -> None:
    absent = sha_of(9)
    sha = watch.git.push(MAIN, 1)
    watch.follower.replace(replace(SPEC, refs=frozenset({"main", absent})))
    await watch.start()
    assert watch.states[-1].missing == {absent} and watch.sha == sha


async def test_one_rejected_branch_does_not_hold_up_the_others(watch: Watch) -> None:
    main = watch.git.push(MAIN, 1)
    evil = watch.git.push("refs/heads/evil", 2)
    watch.follower.replace(replace(SPEC, refs=frozenset({"main", "evil"})))
    await watch.start()
    assert watch.states[-1].commits["evil"].sha == evil and watch.sha == main
    main = watch.git.push(MAIN, 3)
    watch.git.refs["refs/heads/evil"] = sha_of(666)
    await watch.clock.advance(12)
    assert watch.sha == main
    assert watch.states[-1].commits["evil"].sha == evil
    assert "not our ref" in (watch.states[-1].error or "")
    polls = len(watch.git.polls)
    await watch.clock.advance(115)
    assert len(watch.git.polls) >= polls + 9


async def test_a_hint_polls_at_once_and_again_until_the_announced_commit_shows(
    watch: Watch,
) -> None:
    watch.git.push(MAIN, 1)
    await watch.start()
    polls = len(watch.git.polls)
    watch.follower.request_poll({MAIN: sha_of(2)})
    await watch.clock.advance(0)
    assert len(watch.git.polls) == polls + 1
    second = watch.git.push(MAIN, 2)
    await watch.clock.advance(HINT_RETRIES[0])
    assert watch.sha == second and len(watch.git.polls) == polls + 2


async def test_an_announcement_that_never_comes_true_ends(watch: Watch) -> None:
    watch.git.push(MAIN, 1)
    await watch.start()
    polls = len(watch.git.polls)
    watch.follower.request_poll({MAIN: sha_of(99), "refs/heads/other": sha_of(98)})
    await watch.clock.advance(sum(HINT_RETRIES) + 1)
    assert len(watch.git.polls) == polls + 1 + len(HINT_RETRIES)
    await watch.clock.advance(112)
    assert len(watch.git.polls) == polls + 2 + len(HINT_RETRIES)


async def test_while_an_announced_commit_does_not_show_others_are_published(watch: Watch) -> None:
    watch.follower.replace(replace(SPEC, refs=frozenset({"main", "dev"})))
    watch.git.push(MAIN, 1)
    await watch.start()
    dev = watch.git.push("refs/heads/dev", 2)
    watch.follower.request_poll({MAIN: sha_of(99)})
    await watch.clock.advance(0)
    assert watch.states[-1].commits["dev"].sha == dev


async def test_webhooks_that_come_out_of_order_lead_to_what_the_server_has(watch: Watch) -> None:
    first = watch.git.push(MAIN, 1)
    await watch.start()
    second = watch.git.push(MAIN, 2)
    watch.follower.request_poll({MAIN: second})
    await watch.clock.advance(0)
    assert watch.sha == second
    watch.follower.request_poll({MAIN: first})
    await watch.clock.advance(sum(HINT_RETRIES) + 1)
    assert watch.sha == second and len(watch.git.fetches) == 2


async def test_polling_slows_down_while_webhooks_come(watch: Watch) -> None:
    watch.git.push(MAIN, 1)
    await watch.start()
    watch.follower.request_poll({})
    await watch.clock.advance(0)
    polls = len(watch.git.polls)
    await watch.clock.advance(85)
    assert len(watch.git.polls) == polls
    await watch.clock.advance(30)
    assert len(watch.git.polls) == polls + 1
    await watch.clock.advance(24 * 3600)
    polls = len(watch.git.polls)
    await watch.clock.advance(100)
    assert len(watch.git.polls) >= polls + 9


async def test_a_hint_by_a_person_does_not_slow_polling_down(watch: Watch) -> None:
    watch.git.push(MAIN, 1)
    await watch.start()
    watch.follower.request_poll(None)
    await watch.clock.advance(0)
    polls = len(watch.git.polls)
    await watch.clock.advance(35)
    assert polls + 3 <= len(watch.git.polls) <= polls + 4


async def test_a_poll_under_way_shows_the_refs_of_a_later_request(watch: Watch) -> None:
    """A user pushes and requests a sync after the listing of a poll, and before its end."""
    watch.git.push(MAIN, 1)
    await watch.start()
    second, fetch = watch.git.push(MAIN, 2), watch.git.fetch

    async def slowly(spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        await watch.clock.sleep(5)
        await fetch(spec, wants)

    watch.git.fetch = slowly
    watch.follower.request_poll(None)
    await watch.clock.advance(1)
    third, published = watch.git.push(MAIN, 3), len(watch.states)
    watch.follower.request_poll(None)
    await watch.clock.advance(60)
    shown = [state.commits["main"].sha for state in watch.states[published:]]
    assert shown == [third] and second != third


async def test_a_request_while_the_copy_is_measured_is_answered_by_a_later_listing(
    watch: Watch,
) -> None:
    """The first poll measures the copy, which takes seconds for a large one."""
    watch.git.push(MAIN, 1)
    size = watch.git.size

    async def slowly(spec: RepositorySpec) -> int | None:
        await watch.clock.sleep(5)
        return await size(spec)

    watch.git.size = slowly
    await watch.start()
    second = watch.git.push(MAIN, 2)
    watch.follower.request_poll(None)
    await watch.clock.advance(60)
    assert [state.commits["main"].sha for state in watch.states] == [second]


async def test_requests_during_every_listing_do_not_keep_a_poll_from_its_end(
    watch: Watch,
) -> None:
    watch.git.push(MAIN, 1)
    await watch.start()
    listed, second = watch.git.list_refs, watch.git.push(MAIN, 2)

    async def requested_again(spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        await watch.clock.sleep(1)
        watch.follower.request_poll(None)
        return await listed(spec, prefixes)

    watch.git.list_refs = requested_again
    watch.follower.request_poll(None)
    await watch.clock.advance(5)
    assert watch.sha == second


async def test_other_refs_are_taken_up_at_once(watch: Watch) -> None:
    watch.git.push(MAIN, 1)
    dev = watch.git.push("refs/heads/dev", 2)
    await watch.start()
    watch.follower.replace(replace(SPEC, refs=frozenset({"dev"})))
    await watch.clock.advance(0)
    assert {name: one.sha for name, one in watch.states[-1].commits.items()} == {"dev": dev}


async def test_refs_that_nobody_follows_any_more_are_not_shown(watch: Watch) -> None:
    watch.git.push(MAIN, 1)
    watch.follower.replace(replace(SPEC, refs=frozenset({"main", "gone", "lost"})))
    await watch.start()
    assert watch.states[-1].missing == {"gone", "lost"}
    watch.git.error = Unavailable("away")
    watch.follower.replace(replace(SPEC, refs=frozenset({"dev", "lost"})))
    await watch.clock.advance(0)
    assert watch.states[-1].commits == {} and watch.states[-1].missing == {"lost"}


async def test_after_a_restart_the_pinned_commits_are_known_while_the_server_is_away(
    watch: Watch,
) -> None:
    sha = watch.git.push(MAIN, 1)
    await watch.start()
    again = Watch()
    again.git.local = watch.git.local
    again.git.error = Unavailable("away")
    await again.start()
    assert again.sha == sha and again.states[-1].error == "away"
    await again.follower.stop()


async def test_only_the_owner_asks_the_server(watch: Watch) -> None:
    watch.coordinator.mine = False
    await watch.start()
    await watch.clock.advance(50)
    assert watch.git.polls == []


async def test_a_commit_that_is_asked_for_is_fetched_by_its_id(watch: Watch) -> None:
    sha = sha_of(5)
    watch.git.served.add(sha)
    record = await watch.follower.ensure_commit(sha)
    assert record.commit.sha == sha
    await watch.follower.ensure_commit(sha)
    assert len(watch.git.fetches) == 1


@pytest.mark.parametrize("sha", ["main", "--upload-pack=x", "a" * 39, ""])
async def test_only_full_ids_are_fetched(watch: Watch, sha: str) -> None:
    with pytest.raises(Invalid, match="not a full commit id"):
        await watch.follower.ensure_commit(sha)
    assert watch.git.fetches == []


async def test_an_invalid_url_shows_in_the_state(watch: Watch) -> None:
    watch.git.error = Invalid("only http, https and ssh URLs are allowed", field="url")
    await watch.start()
    assert watch.states[-1].error == "url: only http, https and ssh URLs are allowed"


async def test_the_state_tells_the_size_of_the_copy_and_its_owner(watch: Watch) -> None:
    watch.git.push(MAIN, 1)
    await watch.start()
    assert (watch.states[-1].size, watch.states[-1].owner) == (1000, "here")


async def test_the_copy_is_measured_every_ten_minutes(watch: Watch) -> None:
    """That walks over all of its files."""
    watch.git.push(MAIN, 1)
    size, measured = watch.git.size, []

    async def counted(spec: RepositorySpec) -> int | None:
        measured.append(watch.clock.monotonic())
        return await size(spec)

    watch.git.size = counted
    await watch.start()
    await watch.clock.advance(590)
    assert len(measured) == 1
    await watch.clock.advance(30)
    assert len(measured) == 2


async def test_files_that_renders_read_come_with_each_new_commit(watch: Watch) -> None:
    """A lean copy has no others, and a render should not wait for a fetch."""
    fetched: list[set[str]] = []

    async def prefetch(spec: RepositorySpec, tree: str, paths: Collection[str]) -> None:
        fetched.append(set(paths))

    watch.git.prefetch = prefetch
    watch.follower.replace(replace(SPEC, folders=frozenset({"web"})))
    watch.git.push(MAIN, 1)
    await watch.start()
    watch.follower.prefetch_paths(["base", "libs/x.yaml"])
    watch.git.push(MAIN, 2)
    await watch.clock.advance(12)
    assert fetched == [{"web"}, {"web", "base", "libs/x.yaml"}]


async def test_a_slow_server_is_asked_less_often(watch: Watch) -> None:
    """Listing refs may take a twentieth of a server's time at most."""
    watch.git.push(MAIN, 1)
    listed = watch.git.list_refs

    async def slowly(spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        await watch.clock.sleep(2)
        return await listed(spec, prefixes)

    watch.git.list_refs = slowly
    await watch.start()
    await watch.clock.advance(200)
    assert 4 <= len(watch.git.polls) <= 7


async def test_a_commit_fetched_ahead_of_its_ref_is_not_fetched_again(watch: Watch) -> None:
    watch.git.push(MAIN, 1)
    await watch.start()
    sha = watch.git.push(MAIN, 2)
    await asyncio.gather(*(watch.follower.ensure_commit(sha) for _ in range(3)))
    await watch.clock.advance(12)
    assert watch.sha == sha
    assert [set(one.values()) for one in watch.git.fetches[1:]] == [{sha}]
    pins = {name for name, pinned in watch.git.local.items() if pinned == sha}
    assert pins == {f"at-{sha}", pin_name("main")}


async def test_a_commit_missing_from_the_clone_is_fetched_again(watch: Watch) -> None:
    """Its copy was damaged and made anew meanwhile."""
    watch.git.push(MAIN, 1)
    await watch.start()
    sha = watch.git.push(MAIN, 2)
    await watch.follower.ensure_commit(sha)
    del watch.git.local[f"at-{sha}"]
    await watch.clock.advance(60)
    assert watch.sha == sha and watch.states[-1].error is None


async def test_a_replica_without_ownership_refuses_to_fetch(watch: Watch) -> None:
    watch.git.push(MAIN, 1)
    await watch.start()
    watch.coordinator.mine = False
    with pytest.raises(NotOwner):
        await watch.follower.ensure_commit(watch.git.push(MAIN, 2))
