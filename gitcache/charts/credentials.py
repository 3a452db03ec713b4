"""Credentials for chart repositories and registries, from the connected repositories.

Connect a chart repository that needs credentials like any repository, by its https URL. Its refs
are not polled unless a service follows it. Only repositories of the same project are used.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from core.errors import Invalid
from core.identity import RepositoryId
from core.outbound.credentials import RegistryAccount
from core.remotes import Remote, parse_chart_remote
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

    def find(self, url: str, project: str) -> ChartCredentials | None:
        """Returns the account for a chart repository; the longest matching URL wins."""
        target = _parse_remote(url)
        candidates = [
            (remote.path, spec)
            for spec in self._followed.values()
            if spec.project == project
            and (remote := _remote_with_password(spec))
            and _covers(remote, target)
        ]
        if not candidates:
            return None
        _, spec = max(candidates, key=lambda candidate: len(candidate[0]))
        return ChartCredentials(spec.id, _account(spec))


def _remote_with_password(spec: RepositorySpec) -> Remote | None:
    has_password = spec.credentials is not None and spec.credentials.password is not None
    return _parse_remote(spec.url) if has_password else None


def _parse_remote(url: str) -> Remote | None:
    try:
        return parse_chart_remote(url)
    except Invalid:
        return None


def _covers(remote: Remote, target: Remote | None) -> bool:
    """True if a URL is at or below a repository's URL."""
    if target is None or target.origin != remote.origin:
        return False
    return not remote.path or f"{target.path}/".startswith(f"{remote.path}/")


def _account(spec: RepositorySpec) -> RegistryAccount:
    credentials = spec.credentials or GitCredentials()
    return RegistryAccount(credentials.username or "git", credentials.password or "")
