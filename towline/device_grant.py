"""OAuth device grant (RFC 8628) and token refresh.

Standard library only: the kubectl credential plugin uses it.
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypedDict
from urllib.parse import urlencode

from core.errors import Unauthenticated, Unavailable
from core.tls import client_context
from towline.contexts import ControlPlaneTarget

CLIENT = "towline-kubectl-login"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
POLL_SECONDS, SLOWER_SECONDS = 5, 5
MAX_WAIT_SECONDS = 1800
_TIMEOUT = 15.0
_MAX_BYTES = 64 << 10


class OAuthResponse(TypedDict, total=False):
    """Answer of the token or device endpoint: a grant or an error (RFC 6749, RFC 8628)."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    interval: float
    expires_in: float
    access_token: str
    refresh_token: str
    error: str
    error_description: str


class IssuedToken(NamedTuple):
    """An issued token. `expires`: seconds since 1970; 0 if it does not expire."""

    token: str
    refresh: str = ""
    expires: int = 0

    def __repr__(self) -> str:
        return f"Granted(expires={self.expires})"


class DeviceGrant:
    """Sign-in and refresh at one control plane."""

    def __init__(
        self,
        target: ControlPlaneTarget,
        *,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,  # noqa: TID251 - a Clock would load asyncio
    ) -> None:
        self._target, self._sleep, self._now = target, sleep, now

    def sign_in(self, show: Callable[[str], None]) -> IssuedToken:
        """Requests a code, shows it to the user, and waits for approval.

        Unauthenticated: not approved. Unavailable: the control plane is not reachable.
        """
        grant = self._post("/oauth/device/code", {"client_id": CLIENT, "scope": "offline_access"})
        if "device_code" not in grant:
            raise Unauthenticated(
                _error_text(grant, "this control plane does not support device sign-in")
            )
        show(_sign_in_prompt(grant))
        interval = float(grant.get("interval", POLL_SECONDS))
        until = self._now() + min(
            float(grant.get("expires_in", MAX_WAIT_SECONDS)), MAX_WAIT_SECONDS
        )
        while self._now() < until:
            self._sleep(interval)
            form = {"grant_type": DEVICE_GRANT, "device_code": str(grant["device_code"])}
            answer = self._post("/oauth/token", {"client_id": CLIENT, **form})
            if "access_token" in answer:
                return self._issued_token(answer)
            interval += self._extra_interval(answer)
        raise Unauthenticated("the code was not approved in time; try again")

    def refresh(self, token: str) -> IssuedToken | None:
        """Exchanges a refresh token for a new token; None if it is no longer valid."""
        form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": CLIENT}
        answer = self._post("/oauth/token", form)
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

    def _post(self, path: str, form: Mapping[str, str]) -> OAuthResponse:
        """Returns the JSON object of the response, also for an error response."""
        url = self._target.url + path
        request = urllib.request.Request(url, urlencode(form).encode(), method="POST")
        try:
            text = _send(request, self._target.ca)
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise Unavailable(f"cannot reach {self._target.url}: {reason}") from None
        answer: OAuthResponse | None
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        return answer if isinstance(answer, dict) else {}


def _send(request: urllib.request.Request, ca: str) -> bytes:
    context = client_context(text=ca)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT, context=context) as answer:
            return answer.read(_MAX_BYTES)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.read(_MAX_BYTES)


def _sign_in_prompt(grant: OAuthResponse) -> str:
    page = grant.get("verification_uri_complete") or grant.get("verification_uri", "")
    code = grant.get("user_code", "")
    return "".join(c for c in f"To sign in, open {page} and approve {code}" if c.isprintable())


def _error_text(answer: OAuthResponse, otherwise: str) -> str:
    text = str(answer.get("error_description") or answer.get("error") or otherwise)
    return "".join(c for c in text if c.isprintable())[:300]
