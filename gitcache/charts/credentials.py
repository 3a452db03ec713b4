"""Credentials for chart repositories and registries, from the connected repositories.

Connect a chart repository that needs credentials like any repository, by its https URL. Its refs
are not polled unless a service follows it. Only repositories of the same project are used.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from yarl import URL

from core.errors import Invalid
from core.identity import RepositoryId
from core.outbound.credentials import RegistryAccount
from core.remotes import Remote, is_loopback_host, parse_remote
from core.spec.source import GitCredentials, RepositorySpec


@dataclass(frozen=True, slots=True, repr=False)
class ChartCredentials:
    """Id of the repository and its account. Has no repr, so never printed."""

    id: str
    account: RegistryAccount


class ChartCredentialFinder:
    """Finds accounts among the followed repositories."""

    def __init__(self, followed: Mapping[RepositoryId, RepositorySpec]) -> None:
        self._followed = followed

    def of(self, url: str, project: str | None) -> ChartCredentials | None:
        """Returns the account for a chart repository; the longest matching URL wins."""
        place = URL(url)
        found = [
            (remote.path, spec)
            for spec in self._followed.values()
            if spec.project == project and (remote := _remote(spec)) and _opens(remote, place)
        ]
        if not found:
            return None
        _, spec = max(found, key=lambda candidate: len(candidate[0]))
        return ChartCredentials(spec.id, _account(spec))


def _remote(spec: RepositorySpec) -> Remote | None:
    if spec.credentials is None or spec.credentials.password is None:
        return None
    place = URL(spec.url)
    if place.scheme == "oci":
        place = place.with_scheme("http" if is_loopback_host(place.host or "") else "https")
    try:
        return parse_remote(str(place))
    except Invalid:
        return None


def _opens(remote: Remote, place: URL) -> bool:
    """True if a URL is at or below a repository's URL."""
    host = place.host or ""
    scheme = place.scheme
    if scheme == "oci":
        scheme = "http" if is_loopback_host(host) else "https"
    port = place.explicit_port or (80 if scheme == "http" else 443)
    inside = f"{place.path.strip('/')}/".startswith(f"{remote.path.strip('/')}/")
    return remote.origin == (scheme, host, port) and inside


def _account(spec: RepositorySpec) -> RegistryAccount:
    given = spec.credentials or GitCredentials()
    return RegistryAccount(given.username or "git", given.password or "")
