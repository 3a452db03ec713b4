"""Signed orders of the control plane: verification before anything acts on them."""

from collections.abc import Iterator
from typing import Protocol

import structlog

from core.errors import Invalid
from core.runtime.clock import Clock
from core.spec.bundle import Attestation, digest_of
from core.spec.desired import Desired, Removal
from core.spec.statements.attestation import TrustedKeys
from core.spec.statements.orders import (
    CLOCK_SKEW,
    VALID_FOR,
    OrderRequest,
    Power,
    require_powers,
    verify_order,
)
from core.spec.statements.signing_keys import SigningIdentity
from core.wire.codec import attestation_from_message
from core.wire.orders import order_for_command, order_for_desired
from core.wire.v1 import agent_pb2 as pb
from syncagent.ports import AcceptedOrder, OrderLedger

log = structlog.get_logger(__name__)

# A freeze is signed by a key that is kept offline; see `autonomy.freeze`.
_SIGNED_OTHERWISE = "freeze"
_COMMAND_POWERS: dict[str, tuple[Power, ...]] = {
    "sync_now": (),
    "sync_objects": (),
    "render": (),
    "run_job": (Power.JOBS,),
    "cancel_job": (Power.JOBS,),
    "terminate": (Power.JOBS,),
    "upgrade": (Power.UPGRADES,),
}


class Installation(Protocol):
    """The installation that this agent joined."""

    @property
    def cluster_id(self) -> str: ...

    def meet(self, identity: SigningIdentity | None, cluster_id: str) -> None:
        """Pins the key at the first connection; later follows its rotations, or refuses it."""
        ...


class Admission(Protocol):
    """Takes desired state whose order was verified."""

    def admit(self, desired: Desired, powers: frozenset[str]) -> bool:
        """Returns whether it was accepted; reports the reason if not."""
        ...

    def reject(self, desired: Desired, reason: str) -> None: ...


class SignedOrders:
    """Verifies the order of each message: key, cluster, service, content, generation, period and
    powers.
    """

    def __init__(
        self,
        installation: Installation,
        trusted: TrustedKeys,
        ledger: OrderLedger,
        admission: Admission,
        clock: Clock,
    ) -> None:
        self._installation = installation
        self._trusted = trusted
        self._ledger = ledger
        self._admission = admission
        self._clock = clock

    def welcome(self, message: pb.Welcome) -> None:
        """Compares the key of the control plane with the pinned one. Unavailable: disk."""
        identity = None
        if message.signing_key:
            rotations = tuple(map(attestation_from_message, message.rotations))
            identity = SigningIdentity(message.signing_key, rotations)
        self._installation.meet(identity, message.cluster_id)

    def desire(self, message: pb.Desired, desired: Desired) -> None:
        """Passes on desired state with a valid order; reports the reason of a refusal.

        Unavailable: it could not be stored.
        """
        now = self._clock.now()
        try:
            request = order_for_desired(self._installation.cluster_id, message)
            powers = self._verify_order(message, request)
            fence = _fence_of(message)
            latest = self._ledger.newest(desired.service_id)
            if latest is not None and desired.sequence < latest.generation:
                raise Invalid(
                    f"the order is of generation {desired.sequence}; this agent has accepted "
                    f"generation {latest.generation}"
                )
            needed = [*_powers_of(desired)]
            if latest is not None and _leaves_fence(latest, fence, desired):
                needed.append(Power.FENCES)
            require_powers(powers, needed, message.order.key_id)
        except Invalid as error:
            self._admission.reject(desired, error.message)
            return
        if not self._admission.admit(desired, powers):
            return
        forget_at = now + VALID_FOR + 2 * CLOCK_SKEW if desired.removal is not None else None
        kept = latest.fence if latest is not None and desired.removal is not None else fence
        accepted = AcceptedOrder(desired.service_id, desired.sequence, kept)
        self._ledger.accept(accepted, forget_at, now)

    def check_command(self, message: pb.Command) -> None:
        """Raises Invalid for a command without a valid order."""
        kind = message.WhichOneof("body") or ""
        if kind == _SIGNED_OTHERWISE:
            return
        needed = _COMMAND_POWERS.get(kind)
        if needed is None:
            raise Invalid("this agent does not support the command; upgrade the agent")
        powers = self._verify_order(
            message, order_for_command(self._installation.cluster_id, message)
        )
        require_powers(powers, needed, message.order.key_id)

    def _verify_order(
        self, message: pb.Desired | pb.Command, request: OrderRequest
    ) -> frozenset[str]:
        order = _order_of(message)
        return verify_order(self._trusted, order, request, self._clock.now())


def _order_of(message: pb.Desired | pb.Command) -> Attestation | None:
    return attestation_from_message(message.order) if message.HasField("order") else None


def _powers_of(desired: Desired) -> Iterator[Power]:
    """The acts beyond the delivery of a bundle. The admission limits confirmations by itself."""
    if desired.removal is not None:
        yield Power.REMOVALS
    if desired.lifted:
        yield Power.CONFIRMATIONS
    if desired.spec is not None:
        options = desired.spec.options
        labels = options.namespace_labels or options.namespace_annotations
        if options.replace_immutable or labels:
            yield Power.OPTIONS


def _leaves_fence(latest: AcceptedOrder, fence: str, desired: Desired) -> bool:
    """Reports whether the service leaves its fence. An orphan needs none: nothing acts for it."""
    orphaned = desired.removal is Removal.ORPHAN and not fence
    return bool(latest.fence) and fence != latest.fence and not orphaned


def _fence_of(message: pb.Desired) -> str:
    if not message.HasField("fence"):
        return ""
    return digest_of(message.fence.SerializeToString(deterministic=True))
