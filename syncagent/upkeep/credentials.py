"""End and renewal of the agent's own token in a kubeconfig."""

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol
from urllib.parse import quote

import structlog

from core.errors import TowlineError
from core.runtime.clock import Clock
from syncagent.upkeep.doctor import ApiServer, DoctorResult

log = structlog.get_logger(__name__)

_SOON = timedelta(days=7)
_STEP = "credentials"
_EVERY_S = 3600.0
_ACCOUNT = "system:serviceaccount:"


class StoredToken(Protocol):
    """The token in a kubeconfig."""

    @property
    def current(self) -> str:
        """The present token. Invalid: the kubeconfig is not usable any more."""
        ...

    def replace(self, new: str) -> None:
        """Writes a new token over the present one. OSError: the file cannot be written."""
        ...


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """Claims of a service account's token. `audiences` is empty for other tokens."""

    subject: str
    audiences: tuple[str, ...]
    issued_at: datetime
    expires_at: datetime

    def is_due(self, now: datetime) -> bool:
        """Reports whether a third of the token's life is left, or less."""
        return (self.expires_at - now) * 3 <= self.expires_at - self.issued_at


def claims_of(token: str) -> TokenClaims | None:
    """Reads the claims of a JWT; None for other tokens and for those that never expire."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        end = claims["exp"]
        audiences = claims.get("aud") or ()
        return TokenClaims(
            str(claims.get("sub", "")),
            (audiences,) if isinstance(audiences, str) else tuple(audiences),
            datetime.fromtimestamp(claims.get("iat", end), UTC),
            datetime.fromtimestamp(end, UTC),
        )
    except (IndexError, ValueError, KeyError, TypeError, OverflowError, OSError, binascii.Error):
        return None


class TokenRenewal:
    """Replaces the token of a kubeconfig in time by a new one of the same service account.

    Needs the permission to `create` the account's `serviceaccounts/token`.
    """

    def __init__(self, token: StoredToken | None, api: ApiServer, clock: Clock) -> None:
        self._token = token
        self._api = api
        self._clock = clock
        self._refusal = ""

    @property
    def end(self) -> datetime | None:
        """End of the present token; None if there is none, or it has no known end."""
        claims = self._claims
        return claims.expires_at if claims else None

    @property
    def problem(self) -> str:
        """Reason why the token ends within 7 days; empty: it does not, or will be renewed."""
        end = self.end
        if not self._refusal or end is None or end - self._clock.now() > _SOON:
            return ""
        return (
            f"the token of the kubeconfig ends at {end:%Y-%m-%d %H:%M} UTC and cannot be renewed: "
            f"{self._refusal}"
        )

    async def run(self) -> None:
        """Renews until cancelled."""
        while True:
            await self.renew()
            await self._clock.sleep(_EVERY_S)

    async def renew(self) -> None:
        """Renews the token if a third of its life is left, or less."""
        claims = self._claims
        if self._token is None or claims is None or not claims.is_due(self._clock.now()):
            return
        if not claims.subject.startswith(_ACCOUNT):
            self._refusal = f"{claims.subject} is no service account"
            return
        namespace, _, name = claims.subject.removeprefix(_ACCOUNT).partition(":")
        path = f"/api/v1/namespaces/{quote(namespace)}/serviceaccounts/{quote(name)}/token"
        life = claims.expires_at - claims.issued_at
        spec = {"audiences": claims.audiences, "expirationSeconds": int(life.total_seconds())}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        try:
            answer = await self._api.request("POST", path, body=request)
            self._token.replace(str(answer["status"]["token"]))
        except TowlineError as error:
            self._refusal = error.message
            log.warning("token cannot be renewed", error=error.message)
        except OSError as error:
            self._refusal = f"{error.filename} cannot be written: {error.strerror}"
            log.warning("token cannot be renewed", error=self._refusal)
        else:
            self._refusal = ""
            log.info("token renewed", ends=str(self.end))

    @property
    def _claims(self) -> TokenClaims | None:
        try:
            return claims_of(self._token.current) if self._token else None
        except TowlineError:
            # The kubeconfig is being written.
            return None


def check_token(token: str, now: datetime) -> DoctorResult:
    """Checks how long the token of the kubeconfig is valid."""
    claims = claims_of(token)
    if claims is None:
        return DoctorResult(_STEP, True, "the token of the kubeconfig has no known end")
    end = claims.expires_at
    when = f"at {end:%Y-%m-%d %H:%M} UTC"
    renew = (
        "create a new one, for example with `towline clusters join HANDLE --service-account "
        "--agent-role ROLE`"
    )
    if end <= now:
        return DoctorResult(_STEP, False, f"the token of the kubeconfig ended {when}; {renew}")
    left = f"the token of the kubeconfig ends {when}, in {(end - now).days} days"
    return DoctorResult(_STEP, end - now > _SOON, f"{left}; {renew}", needed=False)
