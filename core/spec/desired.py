"""Desired state of a cluster's services."""

from dataclasses import dataclass, field

from core.spec.fences import ServiceFence
from core.spec.objects import ObjectKey, ObjectRef
from core.spec.sealed_secrets import SealedSecret
from core.spec.statements.attestation import Attestation
from core.spec.sync import Removal, SyncOptions
from core.spec.verification import Verification


@dataclass(frozen=True, slots=True)
class BundleSpec:
    """A bundle to apply for a service, and its options."""

    name: str
    """Name of the service."""
    namespace: str
    digest: str
    size: int
    """Size of the bundle in bytes."""
    options: SyncOptions = field(default_factory=SyncOptions)
    commit: str = ""
    """Source commit, for people."""
    attestation: Attestation | None = None
    """Proof of the bundle's origin."""
    secrets: tuple[SealedSecret, ...] = ()
    """Values for the bundle's placeholders."""
    dry_run: bool = False
    """Plan the changes and write nothing."""
    paused: bool = False
    """Write nothing."""


@dataclass(frozen=True, slots=True)
class Desired:
    """Desired state of one service: a bundle or a removal."""

    service_id: str
    sequence: int
    """A higher sequence replaces a lower one."""
    spec: BundleSpec | None = None
    removal: Removal | None = None
    confirmed: tuple[ObjectRef, ...] = ()
    """Deletions that a user has confirmed, for this sequence only."""
    verification: Verification | None = None
    """Verification of the bundle by the agent."""
    lifted: bool = False
    """A user has lifted the quarantine: the agent tries the failed bundle again."""
    fence: ServiceFence | None = None
    """The fence of the service's project; None for services that the cluster defines itself."""

    @property
    def agreed(self) -> frozenset[ObjectKey]:
        """The objects whose deletion a user has confirmed."""
        return frozenset(ref.key for ref in self.confirmed)
