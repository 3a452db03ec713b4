"""All followed repositories: owned ones with a follower, others through events."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

import structlog

from core.errors import TowlineError, Unavailable
from core.identity import RepositoryId
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.spec.source import RepositorySpec, RepositoryState
from gitcache.ports import (
    ON_DEMAND_PIN_PREFIX,
    HintForwarded,
    ReplicaEvent,
    Replicas,
    StatePublished,
)
from gitcache.sync.follower import (
    FollowerPorts,
    PollIntervals,
    RepositoryFollower,
    pin_name,
    prefetch,
)
from gitcache.sync.ownership import Ownership

log = structlog.get_logger(__name__)

_PUBLISH_AGAIN_SECONDS = 0.5
_TICK = timedelta(microseconds=1)

Listener = Callable[[RepositoryState], None]


class FollowedRepositories:
    """Specs of all repositories, followers of owned ones, and all states.

    `specs` is shared with the parts that look up followed repositories; only this class writes it.
    A state becomes visible, here and elsewhere, once it is published.
    """

    def __init__(
        self,
        source: FollowerPorts,
        replicas: Replicas,
        clock: Clock,
        intervals: PollIntervals,
        specs: dict[RepositoryId, RepositorySpec],
    ) -> None:
        self._specs = specs
        self._source = source
        self._replicas = replicas
        self._clock = clock
        self._intervals = intervals
        self._followers: dict[RepositoryId, RepositoryFollower] = {}
        self._copies: dict[RepositoryId, RepositorySpec] = {}
        self._states: dict[RepositoryId, RepositoryState] = {}
        self._listeners: list[Listener] = []
        self._unpublished: dict[RepositoryId, RepositoryState] = {}
        self._has_unpublished = asyncio.Event()
        self._changing = asyncio.Lock()
        self._has_left = False
        self._ownership = Ownership(
            replicas,
            clock,
            self._specs.keys,
            self._followers.keys,
            start_following=self._start_following,
            stop_following=self._stop_following,
            prepare=self._prepare,
        )
        self.tasks = Tasks("following")

    async def start(self) -> None:
        """Joins the other replicas and follows this replica's share."""
        self.tasks.forever("publish", self._publish_states())
        self._ownership.start()
        await self._replicas.start(self._handle_event)

    async def stop(self) -> None:
        """Stops following, then leaves; idempotent."""
        if self._has_left:
            return
        self._has_left = True
        await self._ownership.stop()
        await self.tasks.stop()
        await self._replicas.stop()

    def parts(self) -> tuple[Tasks, ...]:
        """Task owners whose tasks must not end before `stop`."""
        return (self.tasks, self._ownership.tasks)

    def follow(self, spec: RepositorySpec) -> None:
        """See `GitCache.follow`."""
        before, self._specs[spec.id] = self._specs.get(spec.id), spec
        follower = self._followers.get(spec.id)
        if follower is None:
            self._ownership.request_round()
        elif follower.spec.url == spec.url:
            follower.replace(spec)
        else:
            self.tasks.spawn(f"restart/{spec.id}", self._restart(spec.id))
        if before is None and (state := self._states.get(spec.id)) is not None:
            self._notify_listeners(state)

    def forget(self, repository_id: RepositoryId) -> None:
        """See `GitCache.forget`."""
        self._specs.pop(repository_id, None)
        self._states.pop(repository_id, None)
        self._ownership.request_round()

    def on_state(self, listener: Listener) -> None:
        """See `GitCache.on_state`."""
        self._listeners.append(listener)

    def state(self, repository_id: RepositoryId) -> RepositoryState | None:
        """See `GitCache.state`."""
        state = self._states.get(repository_id) if repository_id in self._specs else None
        follower = self._followers.get(repository_id)
        if state is None or follower is None or follower.state is None:
            return state
        # Never return an older time than the published one, even if a clock is behind.
        return replace(state, polled_at=max(state.polled_at, follower.state.polled_at))

    def states(self) -> list[RepositoryState]:
        """The known states of all followed repositories."""
        return [state for name in self._specs if (state := self.state(name)) is not None]

    async def request_poll(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None
    ) -> None:
        """See `GitCache.request_poll`; lost if the coordination server is unavailable."""
        if (follower := self._followers.get(repository_id)) is not None:
            follower.request_poll(announced)
            return
        try:
            await self._replicas.forward_hint(repository_id, announced)
        except Unavailable as error:
            log.warning("hint lost", repository=repository_id, reason=error.message)

    def follower(self, repository_id: RepositoryId) -> RepositoryFollower | None:
        """Returns the follower of a repository that this replica owns, or None."""
        return self._followers.get(repository_id)

    def old_copy_spec(self, repository_id: RepositoryId) -> RepositorySpec | None:
        """Returns the spec of an old local copy of a repository that another replica owns."""
        return self._copies.get(repository_id)

    async def fetch_unowned(self, repository_id: RepositoryId, sha: str) -> None:
        """Fetches one commit of a repository that another replica owns. Raises Unavailable."""
        spec = self._specs.get(repository_id)
        if spec is not None and repository_id not in self._followers:
            await self._source.clones.fetch(spec, {ON_DEMAND_PIN_PREFIX + sha: sha})
            self._copies[repository_id] = spec

    async def clean(self) -> None:
        """Deletes copies of repositories of other replicas and packs the others. Unavailable."""
        await self.drop_copies()
        for follower in tuple(self._followers.values()):
            await self._source.clones.maintain(follower.spec)

    async def drop_copies(self) -> None:
        """Deletes copies of repositories of other replicas. Raises Unavailable."""
        specs = [follower.spec for follower in self._followers.values()]
        for repository_id in tuple(self._copies):
            copy = self._copies.pop(repository_id)
            if repository_id not in self._followers:
                await self._source.reader.release(copy)
        await self._source.clones.keep_only(specs)

    def _handle_event(self, event: ReplicaEvent) -> None:
        if isinstance(event, StatePublished):
            self._update_state(event.state)
        elif isinstance(event, HintForwarded):
            if (follower := self._followers.get(event.repository_id)) is not None:
                follower.request_poll(event.announced)
        else:
            self._ownership.request_round()

    def _update_state(self, state: RepositoryState) -> None:
        before = self._states.get(state.repository_id)
        self._states[state.repository_id] = state
        if state != before and state.repository_id in self._specs:
            self._notify_listeners(state)

    def _notify_listeners(self, state: RepositoryState) -> None:
        for listener in self._listeners:
            try:
                listener(state)
            except Exception:
                log.exception("state callback failed", repository=state.repository_id)

    def _queue_state(self, state: RepositoryState) -> None:
        self._unpublished[state.repository_id] = state
        self._has_unpublished.set()

    async def _publish_states(self) -> None:
        while True:
            await self._has_unpublished.wait()
            self._has_unpublished.clear()
            while self._unpublished:
                await self._publish_state(next(iter(self._unpublished)))

    async def _publish_state(self, repository_id: RepositoryId) -> None:
        state = self._unpublished.pop(repository_id)
        try:
            if not await self._replicas.publish(self._with_previous_commits(state)):
                # If this replica becomes the owner again, a new follower polls everything.
                await self._stop_following(repository_id)
                self._ownership.request_round()
        except Unavailable:
            self._unpublished.setdefault(repository_id, state)
            await self._clock.sleep(_PUBLISH_AGAIN_SECONDS)

    def _with_previous_commits(self, state: RepositoryState) -> RepositoryState:
        """Keeps the previous owner's commits while a new owner has not reached the server yet.

        Also makes times strictly increasing, even if a clock is behind.
        """
        previous = self._states.get(state.repository_id)
        if previous is not None and state.polled_at <= previous.polled_at:
            state = replace(state, polled_at=previous.polled_at + _TICK)
        if state.error is None or previous is None or state.fetched_at is not None:
            return state
        spec = self._specs.get(state.repository_id)
        refs = spec.refs if spec else frozenset()
        previous_commits = {
            name: commit for name, commit in previous.commits.items() if name in refs
        }
        commits = {**state.commits, **previous_commits}
        missing = (state.missing | previous.missing) & refs - commits.keys()
        return replace(state, commits=commits, missing=missing, fetched_at=previous.fetched_at)

    async def _prepare(self, repository_id: RepositoryId) -> None:
        """Fetches the known commits of a repository that another replica still owns."""
        spec, state = self._specs.get(repository_id), self._states.get(repository_id)
        if spec is None or state is None:
            raise Unavailable("its owner has not published a state yet")
        wants = {pin_name(name): commit.sha for name, commit in state.commits.items()}
        if wants:
            await self._source.clones.fetch(spec, wants)
        for sha in set(wants.values()):
            record = await self._source.reader.commit(spec, sha)
            if record is not None:
                await prefetch(self._source.reader, spec, record.tree, spec.folders)

    async def _start_following(self, repository_id: RepositoryId) -> None:
        async with self._changing:
            spec = self._specs.get(repository_id)
            if spec is not None and repository_id not in self._followers:
                self._copies.pop(repository_id, None)
                follower = RepositoryFollower(
                    spec, self._source, self._clock, self._intervals, self._queue_state
                )
                self._followers[repository_id] = follower
                follower.start()

    async def _stop_following(self, repository_id: RepositoryId) -> None:
        async with self._changing:
            await self._stop_follower(repository_id)

    async def _stop_follower(self, repository_id: RepositoryId) -> None:
        follower = self._followers.pop(repository_id, None)
        if follower is None:
            return
        await follower.stop()
        self._unpublished.pop(repository_id, None)
        spec = self._specs.get(repository_id)
        if spec is not None and spec.url == follower.spec.url:
            self._copies[repository_id] = follower.spec
        else:
            await self._source.reader.release(follower.spec)

    async def _restart(self, repository_id: RepositoryId) -> None:
        """Restarts with another URL and drops the known state."""
        await self._stop_following(repository_id)
        self._states.pop(repository_id, None)
        try:
            if await self._replicas.claim(repository_id):
                await self._start_following(repository_id)
        except TowlineError:
            self._ownership.request_round()
