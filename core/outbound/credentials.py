"""Credentials for HTTP servers with basic authentication."""

import base64
from dataclasses import dataclass

from core.spec.source import GitCredentials


@dataclass(frozen=True, slots=True, repr=False)
class RegistryAccount:
    """Credentials for a registry or a chart repository. Never print them."""

    username: str
    password: str

    @property
    def headers(self) -> dict[str, str]:
        """The Authorization header (RFC 7617)."""
        return {"authorization": basic_authorization(self.username, self.password)}


def account_of(credentials: GitCredentials | None) -> RegistryAccount | None:
    """Returns the account of a repository, None without a password.

    Servers that take a token as password accept any username, but not all an empty one.
    """
    if credentials is None or credentials.password is None:
        return None
    return RegistryAccount(credentials.username or "git", credentials.password)


def basic_authorization(username: str, password: str) -> str:
    """Makes the value of an Authorization header for basic authentication (RFC 7617)."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
