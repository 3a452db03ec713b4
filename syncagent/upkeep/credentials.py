"""End of the agent's own credentials in a kubeconfig."""

import base64
import binascii
import json
from datetime import UTC, datetime, timedelta

from syncagent.upkeep.doctor import DoctorResult

_SOON = timedelta(days=7)
_STEP = "credentials"


def token_end(token: str) -> datetime | None:
    """Time at which a JWT expires; None for other tokens and for those that never expire."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (IndexError, ValueError, KeyError, TypeError, OverflowError, OSError, binascii.Error):
        return None


def check_token(token: str, now: datetime) -> DoctorResult:
    """Checks how long the token of the kubeconfig is valid."""
    end = token_end(token)
    if end is None:
        return DoctorResult(_STEP, True, "the token of the kubeconfig has no known end")
    when = f"at {end:%Y-%m-%d %H:%M} UTC"
    renew = "create a new one, for example with `towline clusters join --service-account`"
    if end <= now:
        return DoctorResult(_STEP, False, f"the token of the kubeconfig ended {when}; {renew}")
    left = f"the token of the kubeconfig ends {when}, in {(end - now).days} days"
    return DoctorResult(_STEP, end - now > _SOON, f"{left}; {renew}", needed=False)
