"""OAuth device grant (RFC 8628) and token refresh.

Standard library only: the kubectl credential plugin uses it.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from core.errors import Unauthenticated
from towline.client import GraphQLClient, OAuthResponse
from towline.contexts import ControlPlaneTarget

CLIENT = "towline-kubectl-login"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
POLL_SECONDS, SLOWER_SECONDS = 5, 5
MAX_WAIT_SECONDS = 1800
_TIMEOUT = 15.0


class IssuedToken(NamedTuple):
    """An issued token. `expires`: seconds since 1970; 0 if it does not expire."""

    token: str
    refresh: str = ""
    expires: int = 0

    def __repr__(self) -> str:
        return f"IssuedToken(expires={self.expires})"


class DeviceGrant:
    """Sign-in and refresh at one control plane."""

    def __init__(
        self,
        target: ControlPlaneTarget,
        *,
        client: str = CLIENT,
        scope: str = "offline_access",
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,  # noqa: TID251 - a Clock would load asyncio
    ) -> None:
        """`client` is the name that the user sees; the default `scope` adds a refresh token.

        Invalid: the tokens would be sent over plain HTTP.
        """
        self._api = GraphQLClient(target._replace(token=""), _TIMEOUT)
        self._client, self._scope, self._sleep, self._now = client, scope, sleep, now

    def sign_in(self, show: Callable[[str, str], None]) -> IssuedToken:
        """Requests a code, shows the page for it and the code, and waits for approval.

        Unauthenticated: not approved. Unavailable: the control plane is not reachable.
        """
        grant = self._api.post("/oauth/device/code", client_id=self._client, scope=self._scope)
        if "device_code" not in grant:
            raise Unauthenticated(
                _error_text(grant, "this control plane does not support device sign-in")
            )
        page = grant.get("verification_uri_complete") or grant.get("verification_uri", "")
        show(_printable(page), _printable(grant.get("user_code", "")))
        interval = float(grant.get("interval", POLL_SECONDS))
        until = self._now() + min(
            float(grant.get("expires_in", MAX_WAIT_SECONDS)), MAX_WAIT_SECONDS
        )
        while self._now() < until:
            self._sleep(interval)
            answer = self._api.post(
                "/oauth/token",
                client_id=self._client,
                grant_type=DEVICE_GRANT,
                device_code=str(grant["device_code"]),
            )
            if "access_token" in answer:
                return self._issued_token(answer)
            interval += self._extra_interval(answer)
        raise Unauthenticated("the code was not approved in time; try again")

    def refresh(self, token: str) -> IssuedToken | None:
        """Exchanges a refresh token for a new token; None if it is no longer valid."""
        answer = self._api.post(
            "/oauth/token", client_id=self._client, grant_type="refresh_token", refresh_token=token
        )
        if "access_token" not in answer:
            return None
        granted = self._issued_token(answer)
        return granted if granted.refresh else granted._replace(refresh=token)

    def _extra_interval(self, answer: OAuthResponse) -> int:
        """Seconds to add to the polling interval. Unauthenticated: the sign-in was denied."""
        error = answer.get("error")
        if error == "slow_down":
            return SLOWER_SECONDS
        if error != "authorization_pending":
            raise Unauthenticated(_error_text(answer, "the sign-in was denied"))
        return 0

    def _issued_token(self, answer: OAuthResponse) -> IssuedToken:
        lifetime = answer.get("expires_in")
        expires = int(self._now() + float(lifetime)) if lifetime else 0
        return IssuedToken(
            str(answer["access_token"]), str(answer.get("refresh_token", "")), expires
        )


def _error_text(answer: OAuthResponse, otherwise: str) -> str:
    text = str(answer.get("error_description") or answer.get("error") or otherwise)
    return _printable(text)[:300]


def _printable(text: str) -> str:
    """Leaves out control characters, which a terminal would interpret."""
    return "".join(character for character in text if character.isprintable())
