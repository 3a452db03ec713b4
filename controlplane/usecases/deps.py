"""Ports that all operations get, and the topics of the event bus."""

from dataclasses import dataclass
from typing import Any, Final

from controlplane.domain.access import Actor
from controlplane.domain.ledger import AuditEntry, AuditVerdict
from controlplane.gitports import GitWriter
from controlplane.ports import Bus, ManifestSource, Store, Transaction
from controlplane.secretports import Sealer
from core.identity import new_id
from core.runtime.clock import Clock

_MAX_TARGET_LENGTH = 320
CLUSTER: Final = "cluster"
"""A cluster row changed. Key: cluster id."""
SERVICE: Final = "service"
"""A service row changed. Key: service id."""
DESIRED_STATE: Final = "desired"
"""The desired state or commands of a cluster changed. Key: `<cluster id>/<service id>`."""
RENDER_SERVICES: Final = "deliver"
"""Services may need a render. Key: `<repository id>/<service id>`; without a service id, all."""
PIPELINE: Final = "pipeline"
"""A pipeline row changed. Key: pipeline id."""
ACCESS: Final = "access"
"""Permissions of a user changed. Key: user id; empty for all users."""
CLUSTER_JOB: Final = "cluster-job"
"""A cluster job or its log changed. Key: job id."""
SECRET: Final = "secret"
"""A secret row or the encryption keys changed. Key: secret id; empty for the keys."""
NOTIFY: Final = "news"
"""A user requested a notification. No key."""
GENERATORS: Final = "targets"
"""A generator has to be reconciled. Key: `<kind>/<id>`; empty for all generators."""
REVOKED: Final = "revoked"
"""A token was revoked. Key: token id."""
TUNNEL: Final = "tunnel"
"""An agent's link was claimed or released. Key: `<cluster id> <replica id>`; released: no id."""
AGENT_CHANGED: Final = "linked"
"""Another agent instance than before began its Sync call. Key: cluster id."""


@dataclass(frozen=True, slots=True)
class OperationContext:
    """The ports, passed to every group of operations.

    Without `writer`, nothing is written to git.
    """

    store: Store
    bus: Bus
    manifests: ManifestSource
    sealer: Sealer
    clock: Clock
    writer: GitWriter | None = None

    def new_id(self) -> str:
        """A new id that contains the present time."""
        return new_id(self.clock.now())

    async def audit(
        self, tx: Transaction, actor: Actor, action: str, target: str, target_id: str, **detail: Any
    ) -> None:
        """Adds an audit entry for an allowed change in the same transaction."""
        await tx.audit.append([self.audit_entry(actor, action, target, target_id, **detail)])

    def audit_entry(
        self, actor: Actor, action: str, target: str, target_id: str, **detail: Any
    ) -> AuditEntry:
        """The audit entry for an allowed change."""
        return AuditEntry(
            at=self.clock.now(),
            actor=(actor.email or actor.name)[:320],
            actor_id=actor.id,
            token_id=actor.token_id,
            source=actor.source,
            action=action,
            verdict=AuditVerdict.ALLOWED,
            target=target[:_MAX_TARGET_LENGTH],
            target_id=target_id,
            detail=detail,
        )
