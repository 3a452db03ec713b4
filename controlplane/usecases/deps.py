"""What every use case is given, and the topics on which they wake each other."""

from dataclasses import dataclass
from typing import Any, Final

from controlplane.domain.access import Actor
from controlplane.domain.ledger import AuditEntry, Verdict
from controlplane.gitports import GitWriter
from controlplane.ports import Bus, Manifests, Store, Transaction
from controlplane.secretports import Sealer
from fleet.identity import new_id
from fleet.runtime.clock import Clock

_LONGEST_TARGET = 320
CLUSTER: Final = "cluster"
"""A cluster row changed; key: cluster id."""
SERVICE: Final = "service"
"""A service row changed; key: service id."""
DESIRED: Final = "desired"
"""The desired state or commands of a cluster changed; key: `<cluster id>/<service id>`."""
DELIVER: Final = "deliver"
"""Services may need a new render; key: `<repository id>/<service id>`, without the latter all."""
PIPELINE: Final = "pipeline"
"""A pipeline row changed; key: pipeline id."""
ACCESS: Final = "access"
"""Rights of a user changed; key: user id, empty for everybody's."""
CLUSTER_JOB: Final = "cluster-job"
"""A job of a cluster, or its log, moved on; key: job id."""
SECRET: Final = "secret"
"""A secret row, or the keys that seal, changed; key: secret id, empty for the keys."""
NEWS: Final = "news"
"""A person wants something sent; no key."""
TARGETS: Final = "targets"
"""A definition is to be looked at anew; key: `<kind>/<id>`, empty for all."""
REVOKED: Final = "revoked"
"""A token was revoked; key: token id."""
TUNNEL: Final = "tunnel"
"""An agent's link was claimed or released; key: `<cluster id> <replica id>`, the latter empty."""
LINKED: Final = "linked"
"""Another agent than before has begun its Sync call; key: cluster id."""


@dataclass(frozen=True, slots=True)
class Deps:
    """The ports, handed to each group of verbs; without `writer` nothing goes back to git."""

    store: Store
    bus: Bus
    manifests: Manifests
    sealer: Sealer
    clock: Clock
    writer: GitWriter | None = None

    def new_id(self) -> str:
        """A fresh id of this moment."""
        return new_id(self.clock.now())

    async def audit(
        self, tx: Transaction, actor: Actor, action: str, target: str, target_id: str, **detail: Any
    ) -> None:
        """Write down, in the same transaction, that an allowed change was made."""
        await tx.audit.append([self.audit_entry(actor, action, target, target_id, **detail)])

    def audit_entry(
        self, actor: Actor, action: str, target: str, target_id: str, **detail: Any
    ) -> AuditEntry:
        """The row for an allowed change."""
        return AuditEntry(
            at=self.clock.now(),
            actor=(actor.email or actor.name)[:320],
            actor_id=actor.id,
            token_id=actor.token_id,
            source=actor.source,
            action=action,
            verdict=Verdict.ALLOWED,
            target=target[:_LONGEST_TARGET],
            target_id=target_id,
            detail=detail,
        )
