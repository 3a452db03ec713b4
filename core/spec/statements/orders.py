"""Signed orders: the permission to act on desired state or a command of the control plane.

An order is canonical JSON under an Ed25519 signature, as `core.spec.statements.attestation`. It
names one cluster, one service or command, the digest of the content, a generation and a period. So
it has no effect on another cluster, another service, with other content, later, or a second time.
"""

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum

import orjson

from core.errors import Invalid
from core.spec.bundle import Attestation
from core.spec.statements.attestation import Signer, TrustedKeys

VALID_FOR = timedelta(minutes=15)
"""Validity of an order. Each delivery gets a new one."""
CLOCK_SKEW = timedelta(minutes=5)
"""Accepted difference between the clocks of signer and agent."""
MAX_ORDERS = 1000
"""Maximum number of orders in one request for signatures."""

_PREFIX = b"towline order 1\n"
_VERSION = 1


class Power(StrEnum):
    """An act beyond the delivery of a signed bundle, which an order must allow."""

    REMOVALS = "removals"
    """Remove a service."""
    CONFIRMATIONS = "confirmations"
    """Confirm deletions, raise their budget, or lift a quarantine."""
    OPTIONS = "options"
    """Recreate objects that cannot be changed in place, or label namespaces."""
    FENCES = "fences"
    """Change the fence of a service that is already applied."""
    JOBS = "jobs"
    """Run and cancel jobs, and terminate syncs with their hooks."""
    UPGRADES = "upgrades"
    """Replace the agent by another version."""


ALL_POWERS = tuple(Power)


@dataclass(frozen=True, slots=True)
class OrderRequest:
    """An order to sign; the signer adds powers and period."""

    cluster: str
    """ID of the cluster."""
    subject: str
    """ID of the service or of the command."""
    generation: int
    """Sequence of the desired state; 0 for a command."""
    content: str
    """Digest of the message, `sha256:<hex>`."""


@dataclass(frozen=True, slots=True)
class Order:
    """A decoded order; `issued` and `expires` are seconds since 1970."""

    cluster: str
    subject: str
    generation: int
    content: str
    allows: tuple[str, ...]
    issued: int
    expires: int
    version: int = _VERSION

    def encode(self) -> bytes:
        """Encodes the order canonically."""
        return orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)


_KINDS = {
    "cluster": str,
    "subject": str,
    "generation": int,
    "content": str,
    "allows": list,
    "issued": int,
    "expires": int,
    "version": int,
}
assert _KINDS.keys() == {field.name for field in fields(Order)}


class OrderSigner:
    """Signs orders with one key; `powers` are the acts that it allows at the control plane's
    word.
    """

    def __init__(self, signer: Signer, powers: Iterable[Power] = ALL_POWERS) -> None:
        self._signer = signer
        self._allows = tuple(sorted(set(powers)))

    def sign(self, requests: Collection[OrderRequest], now: datetime) -> list[Attestation]:
        """Signs orders that are valid from now. Raises Invalid for too many."""
        if len(requests) > MAX_ORDERS:
            raise Invalid(f"{len(requests):,} orders at once; the limit is {MAX_ORDERS:,}")
        issued = int(now.timestamp())
        expires = issued + int(VALID_FOR.total_seconds())
        return [
            self._signer.sign_bytes(
                _PREFIX,
                Order(
                    request.cluster,
                    request.subject,
                    request.generation,
                    request.content,
                    self._allows,
                    issued,
                    expires,
                ).encode(),
            )
            for request in requests
        ]


def verify_order(
    keys: TrustedKeys, attestation: Attestation | None, expected: OrderRequest, now: datetime
) -> frozenset[str]:
    """Verifies the order for a message and returns its powers.

    Raises Invalid if it is missing, untrusted, expired, or made for something else.
    """
    if attestation is None:
        raise Invalid("the order is not signed; this agent accepts only signed orders")
    keys.verify_pinned(_PREFIX, attestation, "the order")
    order = _decode(attestation.statement)
    signed_request = OrderRequest(order.cluster, order.subject, order.generation, order.content)
    for field in fields(OrderRequest):
        signed_value, expected_value = (
            getattr(signed_request, field.name),
            getattr(expected, field.name),
        )
        if signed_value != expected_value:
            raise Invalid(
                f"the order was signed for {field.name} {signed_value}, not for {expected_value}"
            )
    timestamp, skew = now.timestamp(), CLOCK_SKEW.total_seconds()
    if timestamp > order.expires + skew:
        end = datetime.fromtimestamp(order.expires, now.tzinfo)
        raise Invalid(f"the order expired at {end:%Y-%m-%d %H:%M:%S} (key {attestation.key_id})")
    if timestamp < order.issued - skew:
        begin = datetime.fromtimestamp(order.issued, now.tzinfo)
        raise Invalid(
            f"the order is valid from {begin:%Y-%m-%d %H:%M:%S}; check the clock of this cluster"
        )
    return frozenset(order.allows)


def require_powers(allowed: frozenset[str], needed: Iterable[Power], key_id: str) -> None:
    """Raises Invalid for an act that the signer does not allow."""
    missing = sorted(set(needed) - allowed)
    if missing:
        raise Invalid(
            f"the key {key_id} does not allow {', '.join(missing)} on request of the control "
            "plane; the operator of the render tier can allow it (git.signing.orders)"
        )


def _decode(data: bytes) -> Order:
    unknown = Invalid("the order has a form that this agent does not know; upgrade the agent")
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Invalid("the order is not JSON") from error
    if not isinstance(raw, dict) or raw.keys() != _KINDS.keys() or raw["version"] != _VERSION:
        raise unknown
    if not all(type(raw[name]) is kind for name, kind in _KINDS.items()):
        raise unknown
    if not all(isinstance(power, str) for power in raw["allows"]):
        raise unknown
    allows = tuple(raw.pop("allows"))
    order = Order(allows=allows, **raw)
    if order.encode() != data:
        raise Invalid("the order is not in canonical form")
    return order
