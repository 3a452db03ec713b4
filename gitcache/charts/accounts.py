"""Whose credentials open a chart repository or a registry: those of a repository here.

A place of charts that asks for a sign-in is connected like any repository, by its https URL; as
long as no service follows it nobody asks it for refs. Only repositories of the same project count.
"""

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from yarl import URL

from fleet.errors import Invalid
from fleet.remotes import Remote, parse_remote
from fleet.source import RepositorySpec
from gitcache.charts.fetcher import is_local


@dataclass(frozen=True, slots=True, repr=False)
class Account:
    """The repository that it is of, and the value of the Authorization header. Never printed."""

    id: str
    authorization: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": self.authorization}


class Accounts:
    """Looks for accounts among the repositories that are followed."""

    def __init__(self) -> None:
        self._followed: Callable[[], Iterable[RepositorySpec]] = tuple

    def look_among(self, followed: Callable[[], Iterable[RepositorySpec]]) -> None:
        """Where the repositories that are followed now can be asked for."""
        self._followed = followed

    def of(self, url: str, project: str | None) -> Account | None:
        """The account for a place of charts; of several the one whose URL is the longest."""
        place = URL(url)
        found = [
            (remote.path, spec)
            for spec in self._followed()
            if spec.project == project and (remote := _remote(spec)) and _opens(remote, place)
        ]
        if not found:
            return None
        _, spec = max(found, key=lambda one: len(one[0]))
        return Account(spec.id, _authorization(spec))


def _remote(spec: RepositorySpec) -> Remote | None:
    if spec.credentials is None or spec.credentials.password is None:
        return None
    place = URL(spec.url)
    if place.scheme == "oci":
        place = place.with_scheme("http" if is_local(place.host or "") else "https")
    try:
        return parse_remote(str(place))
    except Invalid:
        return None


def _opens(remote: Remote, place: URL) -> bool:
    """Whether a place is at or below a repository's URL."""
    host = place.host or ""
    scheme = place.scheme
    if scheme == "oci":
        scheme = "http" if is_local(host) else "https"
    port = place.explicit_port or (80 if scheme == "http" else 443)
    inside = f"{place.path.strip('/')}/".startswith(f"{remote.path.strip('/')}/")
    return remote.origin == (scheme, host, port) and inside


def _authorization(spec: RepositorySpec) -> str:
    given = spec.credentials
    pair = f"{given.username or 'git'}:{given.password}" if given else ""
    return "Basic " + base64.b64encode(pair.encode()).decode()
