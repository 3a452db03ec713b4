"""The route to a repository's server: URL, current credentials, TLS, proxy, addresses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlsplit

from core.errors import AccessDenied
from core.outbound.client import OutboundRoute
from core.outbound.credentials import account_of, basic_authorization
from core.remotes import Remote
from core.spec.source import GitCredentials


class CredentialsRefused(AccessDenied):
    """The server refused the credentials."""


@dataclass(frozen=True, repr=False)
class ServerRoute:
    """A route to a server. Has no repr, so it is never printed.

    `addresses` are the allowed addresses, empty if a proxy resolves the name. The proxy in
    `outbound` is trusted if it is the installation's, and not if it is one of the repository.
    """

    remote: Remote
    credentials: GitCredentials | None
    outbound: OutboundRoute
    authority: str | None
    addresses: Sequence[str] = ()

    @property
    def proxy(self) -> str | None:
        return self.outbound.proxy

    @cached_property
    def authorization(self) -> str | None:
        """Value of the Authorization header (RFC 7617) for http and https."""
        account = account_of(self.credentials)
        return basic_authorization(account.username, account.password) if account else None

    def authorized(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Returns the headers of a request with its authorization, if there is one."""
        return {**headers, **({"Authorization": self.authorization} if self.authorization else {})}

    @cached_property
    def secrets(self) -> list[str]:
        """Texts that must not appear in messages."""
        credentials = self.credentials or GitCredentials()
        header = (self.authorization or "").removeprefix("Basic ")
        proxy = urlsplit(self.proxy or "").password
        texts = (credentials.password, credentials.passphrase, header, proxy)
        return [text for text in texts if text]
