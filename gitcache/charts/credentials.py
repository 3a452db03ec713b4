"""Credentials for chart repositories and registries, from the connected repositories.

Connect a chart repository that needs credentials like any repository, by its https URL. Its refs
are not polled unless a service follows it. Only repositories of the same project are used.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from core.identity import RepositoryId
from core.outbound.credentials import RegistryAccount, account_of
from core.remotes import covering_repositories
from core.spec.source import RepositorySpec


@dataclass(frozen=True, slots=True, repr=False)
class ChartCredentials:
    """Id of the repository and its account. Has no repr, so never printed."""

    id: str
    account: RegistryAccount


class ChartCredentialFinder:
    """Finds accounts among the followed repositories."""

    def __init__(self, followed: Mapping[RepositoryId, RepositorySpec]) -> None:
        self._followed = followed

    def account(self, url: str, project: str) -> RegistryAccount | None:
        """Returns the account for a registry; None: anonymous."""
        credentials = self.find(url, project)
        return credentials.account if credentials else None

    def find(self, url: str, project: str) -> ChartCredentials | None:
        """Returns the account for a chart repository; the longest matching URL wins."""
        urls = {spec.id: spec.url for spec in self._followed.values() if spec.project == project}
        for id in covering_repositories(url, urls):
            account = account_of(self._followed[id].credentials)
            if account is not None:
                return ChartCredentials(id, account)
        return None
