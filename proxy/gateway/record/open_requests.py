"""Counts of open requests by user and cluster, and their limits."""

from collections.abc import Callable, Mapping

from core.errors import LimitExceeded
from proxy.domain.limits import Load, StreamLimits

# Replicas exchange only counts that exceed this fraction of a limit.
REPORTED_FRACTION = 16

ProjectLimits = tuple[tuple[str, int], ...]
"""Names of projects, with their maximum number of open requests."""

_PROJECT = "project "
"""Prefix of a project in the exchanged counts. No name of a user has a space."""


class _UserCounts:
    """Open requests of one user: in total, by cluster, and unanswered upgrades."""

    __slots__ = ("clusters", "total", "upgrades")

    def __init__(self) -> None:
        self.total = self.upgrades = 0
        self.clusters: dict[str, int] = {}


class OpenRequests:
    """Counts the requests of this process, and holds the counts that other replicas reported.
    `further_requests` returns the number of further requests of a user on a cluster.
    """

    def __init__(self, limits: StreamLimits) -> None:
        self._limits = limits
        self._users: dict[str, _UserCounts] = {}
        self._projects: dict[str, int] = {}
        self._remote_loads: Mapping[str, Load] = {}
        self.further_requests: Callable[[str, str], int] = _no_further
        self.total = 0

    @property
    def empty(self) -> bool:
        """Reports whether no request is open and no count is kept."""
        return not (self.total or self._users)

    def enter(self, user: str, handle: str, *, upgrade: bool, projects: ProjectLimits = ()) -> None:
        """Counts a new request. LimitExceeded: too many are open."""
        counts = self._users.get(user) or _UserCounts()
        self._check_limits(user, handle, counts, upgrade=upgrade)
        self._check_projects(projects)
        for project, _ in projects:
            self._projects[project] = self._projects.get(project, 0) + 1
        counts.clusters[handle] = counts.clusters.get(handle, 0) + 1
        counts.total += 1
        counts.upgrades += upgrade
        self._users[user] = counts
        self.total += 1

    def count(self, user: str, handle: str) -> int:
        """Returns the number of requests of a user on a cluster that `enter` counted."""
        counts = self._users.get(user)
        return counts.clusters.get(handle, 0) if counts is not None else 0

    def upgraded(self, user: str) -> None:
        """Stops counting a request as an unanswered upgrade."""
        self._users[user].upgrades -= 1

    def leave(self, user: str, handle: str, projects: ProjectLimits = ()) -> None:
        """Removes a request that `enter` counted, and the entry of a user without requests."""
        self.total -= 1
        for project, _ in projects:
            self._projects[project] -= 1
            if not self._projects[project]:
                del self._projects[project]
        counts = self._users[user]
        counts.total -= 1
        if not counts.total:
            del self._users[user]
            return
        remaining = counts.clusters[handle] - 1
        if remaining:
            counts.clusters[handle] = remaining
        else:
            del counts.clusters[handle]

    def loads(self) -> dict[str, Load]:
        """Counts of the users with many open requests here, and of projects with a limit; other
        replicas add them to theirs.
        """
        threshold = max(1, self._limits.per_user_and_cluster // REPORTED_FRACTION)
        users = {
            name: Load(user.total, dict(user.clusters))
            for name, user in self._users.items()
            if user.total >= threshold
        }
        return users | {_PROJECT + name: Load(count, {}) for name, count in self._projects.items()}

    def set_remote_loads(self, loads: Mapping[str, Load]) -> None:
        """Sets the counts of other replicas, which the limits include from now on."""
        self._remote_loads = loads

    def _check_projects(self, projects: ProjectLimits) -> None:
        for project, limit in projects:
            remote = self._remote_loads.get(_PROJECT + project)
            count = self._projects.get(project, 0) + (remote.total if remote else 0)
            if count >= limit:
                raise LimitExceeded(
                    f'{count} requests open in project "{project}", which may have {limit}: '
                    "end some, or ask an administrator for a higher limit"
                )

    def _check_limits(self, user: str, handle: str, counts: _UserCounts, *, upgrade: bool) -> None:
        limits, further = self._limits, self.further_requests(user, handle)
        on_cluster, in_total = counts.clusters.get(handle, 0) + further, counts.total + further
        if self._remote_loads and (load := self._remote_loads.get(user)) is not None:
            on_cluster += load.clusters.get(handle, 0)
            in_total += load.total
        if on_cluster >= limits.per_user_and_cluster:
            raise LimitExceeded(f'{on_cluster} requests open for "{user}" on "{handle}"')
        if in_total >= limits.per_user:
            raise LimitExceeded(f'{in_total} requests open for "{user}"')
        if self.total >= limits.per_process:
            raise LimitExceeded("too many requests are open")
        if upgrade and counts.upgrades >= limits.upgrades_per_user:
            raise LimitExceeded(f'too many connections of "{user}" wait for their upgrade')


def _no_further(_user: str, _handle: str) -> int:
    return 0
