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


class _User:
    """Open requests of one user: in total, by cluster, and unanswered upgrades."""

    __slots__ = ("clusters", "total", "upgrades")

    def __init__(self) -> None:
        self.total = self.upgrades = 0
        self.clusters: dict[str, int] = {}


class OpenRequests:
    """Counts the requests of this process, and holds the counts that other replicas reported.
    `also_open` returns the number of further requests of a user on a cluster.
    """

    def __init__(self, limits: StreamLimits) -> None:
        self._limits = limits
        self._users: dict[str, _User] = {}
        self._projects: dict[str, int] = {}
        self._remote_loads: Mapping[str, Load] = {}
        self.also_open: Callable[[str, str], int] = _none
        self.total = 0

    @property
    def empty(self) -> bool:
        """Reports whether no request is open and no count is kept."""
        return not (self.total or self._users)

    def enter(self, user: str, handle: str, *, upgrade: bool, projects: ProjectLimits = ()) -> None:
        """Counts a new request. LimitExceeded: too many are open."""
        known = self._users.get(user) or _User()
        self._check(user, handle, known, upgrade=upgrade)
        self._check_projects(projects)
        for project, _ in projects:
            self._projects[project] = self._projects.get(project, 0) + 1
        known.clusters[handle] = known.clusters.get(handle, 0) + 1
        known.total += 1
        known.upgrades += upgrade
        self._users[user] = known
        self.total += 1

    def count(self, user: str, handle: str) -> int:
        """Returns the number of requests of a user on a cluster that `enter` counted."""
        known = self._users.get(user)
        return known.clusters.get(handle, 0) if known is not None else 0

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
        known = self._users[user]
        known.total -= 1
        if not known.total:
            del self._users[user]
            return
        left = known.clusters[handle] - 1
        if left:
            known.clusters[handle] = left
        else:
            del known.clusters[handle]

    def loads(self) -> dict[str, Load]:
        """Counts of the users with many open requests here, and of projects with a limit; other
        replicas add them to theirs.
        """
        much = max(1, self._limits.per_user_and_cluster // REPORTED_FRACTION)
        users = {
            name: Load(user.total, dict(user.clusters))
            for name, user in self._users.items()
            if user.total >= much
        }
        return users | {_PROJECT + name: Load(count, {}) for name, count in self._projects.items()}

    def set_remote_loads(self, loads: Mapping[str, Load]) -> None:
        """Sets the counts of other replicas, which the limits include from now on."""
        self._remote_loads = loads

    def _check_projects(self, projects: ProjectLimits) -> None:
        for project, most in projects:
            elsewhere = self._remote_loads.get(_PROJECT + project)
            count = self._projects.get(project, 0) + (elsewhere.total if elsewhere else 0)
            if count >= most:
                raise LimitExceeded(
                    f'{count} requests open in project "{project}", which may have {most}: '
                    "end some, or ask an administrator for a higher limit"
                )

    def _check(self, user: str, handle: str, known: _User, *, upgrade: bool) -> None:
        limits, further = self._limits, self.also_open(user, handle)
        here, everywhere = known.clusters.get(handle, 0) + further, known.total + further
        if self._remote_loads and (load := self._remote_loads.get(user)) is not None:
            here += load.clusters.get(handle, 0)
            everywhere += load.total
        if here >= limits.per_user_and_cluster:
            raise LimitExceeded(f'{here} requests open for "{user}" on "{handle}"')
        if everywhere >= limits.per_user:
            raise LimitExceeded(f'{everywhere} requests open for "{user}"')
        if self.total >= limits.per_process:
            raise LimitExceeded("too many requests are open")
        if upgrade and known.upgrades >= limits.upgrades_per_user:
            raise LimitExceeded(f'too many connections of "{user}" wait for their upgrade')


def _none(_user: str, _handle: str) -> int:
    return 0
