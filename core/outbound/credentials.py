"""Credentials for HTTP servers with basic authentication."""

import base64
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, repr=False)
class RegistryAccount:
    """Credentials for a registry or a chart repository. Never print them."""

    username: str
    password: str

    @property
    def headers(self) -> dict[str, str]:
        """The Authorization header (RFC 7617)."""
        return {"authorization": basic_authorization(self.username, self.password)}


def basic_authorization(username: str, password: str) -> str:
    """Makes the value of an Authorization header for basic authentication (RFC 7617)."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
