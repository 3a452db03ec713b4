"""The pinned signing key of the installation that this agent joined."""

from dataclasses import replace
from typing import Protocol

import structlog

from core.errors import Invalid
from core.spec.statements.attestation import TrustedKeys
from core.spec.statements.signing_keys import SigningIdentity, follow_rotations, public_key
from syncagent.ports import PinnedKey

log = structlog.get_logger(__name__)


class PinStore(Protocol):
    """Stores the pin."""

    def load(self) -> PinnedKey | None: ...

    def save(self, pin: PinnedKey) -> None: ...


class JoinedInstallation:
    """Pins the signing key once, and then trusts only it and what its rotations lead to.

    `expected` is the fingerprint that joining gave, `cluster` the id of this cluster. Without them
    the agent pins those of its first connection. Another fingerprint in the settings replaces the
    pin. Invalid, Unavailable: the stored pin cannot be read.
    """

    def __init__(
        self, trusted: TrustedKeys, store: PinStore, expected: str = "", cluster: str = ""
    ) -> None:
        self._trusted = trusted
        self._store = store
        self._expected = expected
        self._cluster = cluster
        self._refused = ""
        self._pin = store.load()
        if self._pin is not None and expected not in ("", self._pin.expected, self._pin.key_id):
            self._pin = None
        if self._pin is not None:
            self._trust_pin(self._pin)
        else:
            trusted.expect(expected)

    @property
    def cluster_id(self) -> str:
        """The id of this cluster; empty before the first connection."""
        return self._cluster or (self._pin.cluster_id if self._pin else "")

    @property
    def problem(self) -> str:
        """The reason to refuse the key that the control plane presents; empty: none."""
        return self._refused

    def meet(self, identity: SigningIdentity | None, cluster_id: str) -> None:
        """See `link.orders.Installation`. Unavailable: the pin could not be stored."""
        if identity is None:
            return
        try:
            pin = self._pin_for(identity, cluster_id)
        except Invalid as error:
            log.error("signing key refused", reason=error.message)
            self._refused = error.message
            if self._pin is not None:
                self._save_pin(replace(self._pin, problem=error.message))
            return
        if pin != self._pin:
            log.info("signing key pinned", key=pin.key_id, cluster=pin.cluster_id)
            self._save_pin(pin)
        self._trust_pin(pin)
        self._refused = ""

    def _pin_for(self, identity: SigningIdentity, cluster_id: str) -> PinnedKey:
        pinned = self._pin.key_id if self._pin else self._expected
        if not pinned:
            log.warning(
                "no fingerprint was given at joining; the first key is pinned", key=identity.key_id
            )
        follow_rotations(pinned or identity.key_id, identity)
        cluster = self.cluster_id or cluster_id
        if cluster_id != cluster:
            raise Invalid(
                f"the control plane calls this cluster {cluster_id}; this agent joined as {cluster}"
            )
        expected = self._expected or (self._pin.expected if self._pin else "")
        former: tuple[bytes, ...] = ()
        if self._pin is not None:
            rotated = self._pin.public_key != identity.public_key
            former = (*self._pin.former, *([self._pin.public_key] if rotated else []))
        return PinnedKey(identity.public_key, cluster, expected, former=former)

    def _trust_pin(self, pin: PinnedKey) -> None:
        self._trusted.pin(public_key(pin.public_key), map(public_key, pin.former))

    def _save_pin(self, pin: PinnedKey) -> None:
        self._store.save(pin)
        self._pin = pin
