"""The way to one repository's server: URL, credentials of this hour, TLS, proxy, addresses."""

import base64
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlsplit

from fleet.errors import Unavailable
from fleet.remotes import Remote
from fleet.source import GitCredentials


class Refused(Unavailable):
    """The server does not take the credentials."""


@dataclass(frozen=True, repr=False)
class Route:
    """Never printed. `addresses` are the admitted ones, empty where a proxy looks up the name.

    `trusted_proxy` tells a proxy of the installation from one that a repository names.
    """

    remote: Remote
    credentials: GitCredentials | None
    tls: ssl.SSLContext
    authority: str | None
    proxy: str | None = None
    trusted_proxy: bool = False
    addresses: Sequence[str] = ()

    @cached_property
    def authorization(self) -> str | None:
        """The value of the Authorization header (RFC 7617) for http and https."""
        credentials = self.credentials
        if credentials is None or credentials.password is None:
            return None
        pair = f"{credentials.username or 'git'}:{credentials.password}"
        return "Basic " + base64.b64encode(pair.encode()).decode()

    @cached_property
    def secrets(self) -> list[str]:
        """Texts that must never be seen in a message."""
        given = self.credentials or GitCredentials()
        header = (self.authorization or "").removeprefix("Basic ")
        proxy = urlsplit(self.proxy or "").password
        texts = (given.password, given.passphrase, header, proxy)
        return [text for text in texts if text]
