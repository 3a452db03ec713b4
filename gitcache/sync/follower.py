"""Follows one repository: polls its refs, fetches new commits, reports changes."""

import asyncio
import hashlib
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from core.errors import Invalid, NotFound, TowlineError, Unavailable, reason_of
from core.runtime.backoff import Backoff
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.spec.source import Commit, RepositoryKind, RepositorySpec, RepositoryState
from gitcache.domain import refs
from gitcache.domain.commits import CommitRecord
from gitcache.ports import (
    ON_DEMAND_PIN_PREFIX,
    Clones,
    CommitsRejected,
    Coordinator,
    NotOwner,
    RefLister,
    TreeReader,
)

log = structlog.get_logger(__name__)

HINT_RETRIES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Seconds between polls after a webhook until the server shows the announced commit."""

_RECENT_WEBHOOK_SECONDS = 24 * 3600.0
_SPREAD = 0.1
_SLOW_SECONDS = 1.0
_SLOW_FACTOR = 20.0
"""A server that needs more than 1 s for a poll spends at most 1/20 of its time on polls."""
_CHARTS_SECONDS = 300.0
"""Minimum poll interval of chart repositories: an index is large and rarely changes."""
_ARTIFACTS_SECONDS = 60.0
"""Minimum poll interval of repositories of artifacts: public registries limit requests."""
_MIN_POLL_SECONDS = {
    RepositoryKind.GIT: 0.0,
    RepositoryKind.HELM: _CHARTS_SECONDS,
    RepositoryKind.OCI: _ARTIFACTS_SECONDS,
}

_MEASURE_SECONDS = 600.0
_UNUSED_SECONDS = 3600.0
"""Interval of polls of a repository that no service uses."""
_MAX_USED_PATHS = 50_000
_MAX_ON_DEMAND_COMMITS = 1_000
_MAX_LISTINGS = 3
"""Maximum listings of refs in one poll, for users who request a poll during it."""


@dataclass(frozen=True, slots=True)
class PollIntervals:
    """Poll intervals in seconds: without webhooks, and with recent webhooks."""

    poll: float
    poll_with_webhook: float
    max_backoff: float = 300.0


@dataclass(frozen=True, slots=True)
class FollowerPorts:
    """The ports of a follower; `owner` is the name of this replica."""

    lister: RefLister
    clones: Clones
    reader: TreeReader
    coordinator: Coordinator
    owner: str | None = None


@dataclass
class _PolledState:
    """Results of the last successful poll."""

    commits: dict[str, Commit] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    fetched_at: datetime | None = None
    size: int | None = None
    measured_at: float | None = None


class RepositoryFollower:
    """Watches a repository in one task; `spec` can be replaced while it runs.

    Calls `on_change` with each state whose commits, missing refs or error have changed.
    """

    def __init__(
        self,
        spec: RepositorySpec,
        source: FollowerPorts,
        clock: Clock,
        intervals: PollIntervals,
        on_change: Callable[[RepositoryState], None],
    ) -> None:
        self.spec = spec
        self.state: RepositoryState | None = None
        self._source = source
        self._clock = clock
        self._intervals = intervals
        self._on_change = on_change
        self._polled = _PolledState()
        self._wake = asyncio.Event()
        self._announced: dict[str, str] = {}
        self._is_requested = False
        self._last_webhook_at: float | None = None
        self._backoff = Backoff(first=2.0, limit=intervals.max_backoff)
        self._fetching = asyncio.Lock()
        self._on_demand: set[str] = set()
        self._poll_seconds = 0.0
        self._used_paths: set[str] = set()
        self._is_failing = False
        self._is_reached = False
        self._tasks = Tasks(f"follower/{spec.id}")

    def start(self) -> None:
        """Starts to poll."""
        self._tasks.forever("poll", self._run())

    async def stop(self) -> None:
        """Stops polling and gives up ownership."""
        await self._tasks.stop()
        await self._source.coordinator.release(self.spec.id)

    def replace(self, spec: RepositorySpec) -> None:
        """Applies another spec. New refs and another connection are polled at once.

        New refs do not hurry a server that fails.
        """
        before, self.spec = self.spec, spec
        if _connection_settings(spec) != _connection_settings(before):
            self._backoff.reset()
            self._is_reached = False
            self._wake.set()
        elif spec.refs - before.refs and not self._is_failing:
            self._wake.set()

    def request_poll(self, announced: Mapping[str, str] | None) -> None:
        """Polls at once; a webhook has announced `announced` (full ref to sha).

        Without an announcement, a poll that is under way lists the refs again: its end shows at
        least the refs of the moment of the request.
        """
        self._is_requested |= announced is None
        if announced is not None:
            self._last_webhook_at = self._clock.monotonic()
            self._announced.update(announced)
        self._wake.set()

    async def ensure_commit(self, sha: str) -> CommitRecord:
        """Returns a commit with its folders from the local copy; fetches it if needed.

        Raises Unavailable if it cannot be fetched, Invalid for a malformed sha.
        """
        if not refs.is_sha(sha):
            raise Invalid(f"{sha[:80]!r} is not a full commit id", field="commit")
        record = await self._source.reader.commit(self.spec, sha)
        if record is None:
            record = await self._fetch_on_demand(sha)
        if record is None:
            raise Unavailable(f"commit {sha[:12]} is not in the local copy")
        return record

    def prefetch_paths(self, paths: Collection[str]) -> None:
        """Fetches the files of these paths with each commit from now on."""
        if len(self._used_paths) < _MAX_USED_PATHS:
            self._used_paths.update(paths)

    async def resolve(self, name: str) -> Commit:
        """Resolves a branch, tag or sha to its current commit, even if it is not followed.

        Raises NotFound for an unknown name, Unavailable if the commit cannot be fetched.
        """
        if self.state is not None and name in self.state.commits:
            return self.state.commits[name]
        sha: str | None = name
        if not refs.is_sha(name):
            prefixes = refs.prefixes([name])
            listed = await self._source.lister.list_refs(self.spec, prefixes) if prefixes else {}
            sha = refs.resolve([name], listed).commits.get(name)
        if sha is None:
            raise NotFound(f"{self.spec.url} has no branch, tag or commit {name[:200]!r}")
        return (await self.ensure_commit(sha)).commit

    async def _run(self) -> None:
        await self._restore()
        while True:
            delay = await self._poll_and_publish()
            await self._wait(delay)

    async def _restore(self) -> None:
        """Restores the commits that an earlier process pinned, in case the server is down."""
        try:
            pins = await self._source.clones.pins(self.spec)
            for name in self.spec.refs:
                sha = pins.get(pin_name(name))
                record = await self._source.reader.commit(self.spec, sha) if sha else None
                if record is not None:
                    self._polled.commits[name] = record.commit
        except TowlineError as error:
            log.warning("local copy unusable", repository=self.spec.id, reason=error.message)
        except Exception:
            log.exception("local copy unusable", repository=self.spec.id)

    async def _poll_and_publish(self) -> float:
        """Polls once and returns the seconds until the next poll."""
        spec = self.spec
        try:
            await self._poll(spec)
        except TowlineError as error:
            log.warning("repository failed", repository=spec.id, reason=error.message)
            self._publish(spec, error.message, reason_of(error))
            if isinstance(error, CommitsRejected):
                return self._poll_interval()
            self._is_failing = True
            return max(1.0, self._backoff.next(), error.retry_after or 0.0)
        except Exception:
            log.exception("repository failed", repository=spec.id)
            self._publish(spec, "internal error; see the log of the git cache")
            self._is_failing = True
            return max(1.0, self._backoff.next())
        self._backoff.reset()
        self._is_failing = False
        self._publish(spec, None)
        await self._measure_copy(spec)
        return self._poll_interval()

    async def _poll(self, spec: RepositorySpec) -> None:
        if not await self._source.coordinator.claim(spec.id):
            return
        for _ in range(_MAX_LISTINGS):
            self._is_requested = False
            await self._poll_refs(spec)
            if self._polled.measured_at is None:
                await self._measure_copy(spec)
            if not self._is_requested:
                return

    async def _poll_refs(self, spec: RepositorySpec) -> None:
        """Lists the refs, until they show what a webhook announced, and fetches new commits."""
        for delay in (*HINT_RETRIES, None):
            prefixes = refs.prefixes(spec.refs)
            # An unused repository is asked as well, so that a wrong URL shows.
            listed = await self._list_refs(spec, prefixes) if prefixes or not spec.refs else {}
            resolved = refs.resolve(spec.refs, listed)
            if delay is None or self._shows_announced(spec, resolved.commits):
                break
            await self._fetch_and_update(spec, resolved)
            self._publish(spec, None)
            await self._wait(delay)
        self._announced.clear()
        await self._fetch_and_update(spec, resolved)

    async def _list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        started = self._clock.monotonic()
        listed = await self._source.lister.list_refs(spec, prefixes or [refs.HEAD])
        self._poll_seconds = self._clock.monotonic() - started
        # A registry of charts has no answer without the name of a chart.
        is_registry = spec.kind is RepositoryKind.HELM and spec.url.startswith("oci://")
        self._is_reached = bool(prefixes) or not is_registry
        return listed

    async def _measure_copy(self, spec: RepositorySpec) -> None:
        """Measures the local copy at most every 10 minutes, because that walks all of its files."""
        now, polled = self._clock.monotonic(), self._polled
        if polled.measured_at is None or now - polled.measured_at >= _MEASURE_SECONDS:
            polled.size = await self._source.clones.size(spec)
            polled.measured_at = now if polled.size is not None else None

    def _shows_announced(self, spec: RepositorySpec, commits: Mapping[str, str]) -> bool:
        expected = {
            name: self._announced[ref]
            for name in spec.refs
            for ref in refs.candidates(name)
            if ref in self._announced
        }
        return all(commits.get(name) == sha for name, sha in expected.items())

    async def _fetch_and_update(self, spec: RepositorySpec, resolved: refs.ResolvedRefs) -> None:
        """Fetches new commits and updates the known ones."""
        known_shas = {name: commit.sha for name, commit in self._polled.commits.items()}
        new = {name: sha for name, sha in resolved.commits.items() if known_shas.get(name) != sha}
        failures = await self._fetch_new(new)
        commits = {}
        absent = set(resolved.missing)
        for name, sha in resolved.commits.items():
            commit = await self._commit_of_ref(spec, name, sha, failures)
            if commit is not None:
                commits[name] = commit
            elif name == sha or name not in failures:
                absent.add(name)
        self._polled.commits = commits
        self._polled.missing = frozenset(absent)
        if unresolved := [error for name, error in failures.items() if name not in absent]:
            raise unresolved[0]

    async def _fetch_new(self, new: Mapping[str, str]) -> dict[str, CommitsRejected]:
        """Fetches new commits; returns rejected ones by name, which must not block the others."""
        if not new:
            return {}
        try:
            await self._fetch_followed({pin_name(name): sha for name, sha in new.items()})
        except CommitsRejected as error:
            if len(new) == 1:
                return dict.fromkeys(new, error)
            failures: dict[str, CommitsRejected] = {}
            for name, sha in new.items():
                failures |= await self._fetch_new({name: sha})
            return failures
        self._polled.fetched_at = self._clock.now()
        return {}

    async def _commit_of_ref(
        self, spec: RepositorySpec, name: str, sha: str, failures: Collection[str]
    ) -> Commit | None:
        """Returns the commit of a ref: the last good one if the new one was rejected.

        Returns None without a commit, for example for a tag of a blob.
        """
        last_good = self._polled.commits.get(name)
        if name in failures or (last_good is not None and last_good.sha == sha):
            return last_good
        try:
            record = await self._source.reader.commit(spec, sha)
        except Invalid:
            return None
        if record is None:
            raise Unavailable(f"commit {sha[:12]} is missing after the fetch")
        await prefetch(self._source.reader, spec, record.tree, spec.folders | self._used_paths)
        return record.commit

    async def _fetch_on_demand(self, sha: str) -> CommitRecord | None:
        """Fetches one commit, unless a concurrent fetch already did."""
        async with self._fetching:
            record = await self._source.reader.commit(self.spec, sha)
            if record is None:
                await self._fetch({ON_DEMAND_PIN_PREFIX + sha: sha})
                if len(self._on_demand) < _MAX_ON_DEMAND_COMMITS:
                    self._on_demand.add(sha)
                record = await self._source.reader.commit(self.spec, sha)
        return record

    async def _fetch_followed(self, wants: Mapping[str, str]) -> None:
        """Fetches the commits of refs; only pins those that were fetched on request before."""
        async with self._fetching:
            fetched = {name: sha for name, sha in wants.items() if sha in self._on_demand}
            self._on_demand -= set(fetched.values())
            if fetched:
                await self._source.clones.pin(self.spec, fetched)
            if absent := {name: sha for name, sha in wants.items() if name not in fetched}:
                await self._fetch(absent)

    async def _fetch(self, wants: Mapping[str, str]) -> None:
        if not await self._source.coordinator.claim(self.spec.id):
            raise NotOwner(
                "this replica does not own the repository now: another one has taken it over, "
                "or Redis is unavailable",
                retry_after=1.0,
            )
        await self._source.clones.fetch(self.spec, wants)

    def _publish(self, spec: RepositorySpec, error: str | None, reason: str = "") -> None:
        polled = self._polled
        state = RepositoryState(
            repository_id=spec.id,
            commits={name: commit for name, commit in polled.commits.items() if name in spec.refs},
            missing=polled.missing & spec.refs,
            error=error,
            polled_at=self._clock.now(),
            fetched_at=polled.fetched_at,
            size=polled.size,
            owner=self._source.owner,
            reached=self._is_reached,
            reason=reason,
        )
        before, self.state = self.state, state
        if before is None or replace(before, polled_at=state.polled_at) != state:
            self._on_change(state)

    def _poll_interval(self) -> float:
        intervals = self._intervals
        recent = self._last_webhook_at is not None and (
            self._clock.monotonic() - self._last_webhook_at < _RECENT_WEBHOOK_SECONDS
        )
        seconds = intervals.poll_with_webhook if recent else intervals.poll
        seconds = max(seconds, _MIN_POLL_SECONDS[self.spec.kind])
        if not self.spec.refs:
            seconds = max(seconds, _UNUSED_SECONDS)
        if self._poll_seconds > _SLOW_SECONDS:
            seconds = max(seconds, min(self._poll_seconds * _SLOW_FACTOR, intervals.max_backoff))
        return seconds * random.uniform(1 - _SPREAD, 1 + _SPREAD)

    async def _wait(self, seconds: float) -> None:
        """Waits for some seconds or until woken."""
        sleeper = self._tasks.spawn("pause", self._wake_after(seconds))
        try:
            await self._wake.wait()
            self._wake.clear()
        finally:
            sleeper.cancel()

    async def _wake_after(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._wake.set()


def _connection_settings(spec: RepositorySpec) -> RepositorySpec:
    """Returns the part of a spec that decides about reaching its server."""
    return replace(spec, refs=frozenset(), folders=frozenset())


async def prefetch(
    reader: TreeReader, spec: RepositorySpec, tree: str, paths: Collection[str]
) -> None:
    """Fetches files in advance, so that no request waits for a fetch.

    Logs folders that are invalid; a later read reports them. Raises Unavailable if the server
    fails.
    """
    try:
        await reader.prefetch(spec, tree, paths)
    except Invalid as error:
        log.warning("prefetch failed", repository=spec.id, reason=error.message)


def pin_name(name: str) -> str:
    """Returns the pin name of a followed ref."""
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:20]
