"""Puts reports into the outbox: the port `ServiceReports`."""

from core.spec.facts import ClusterFacts
from core.spec.verification import VerificationResult
from core.wire.codec import cluster_facts_to_message, verification_result_to_message
from core.wire.v1 import agent_pb2 as pb
from syncagent.domain.events import CommandAnswer, DriftFound
from syncagent.domain.jobs import JobStatus
from syncagent.domain.local_services import LocalServiceReport
from syncagent.domain.observed.inventory import InventoryChange
from syncagent.domain.services import SyncStatus
from syncagent.link.wire import (
    done_to_wire,
    drift_to_wire,
    inventory_to_wire,
    job_to_wire,
    merge_inventories,
    mirror_to_wire,
    status_to_wire,
)
from syncagent.ports import Outbox

# Longer inventories are not merged: one message must not delay the others.
_MERGED_BYTES = 256 << 10


class OutboxReports:
    """Writes reports to the outbox; each topic keeps only its newest report."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def status(self, status: SyncStatus) -> None:
        body = status_to_wire(status).SerializeToString()
        self._outbox.put(f"status/{status.service_id}", body)

    def inventory(self, change: InventoryChange) -> None:
        body = inventory_to_wire(change).SerializeToString()
        self._outbox.put(f"inventory/{change.service_id}", body, _merge)

    def drift(self, found: DriftFound) -> None:
        ref = found.ref
        topic = f"drift/{found.service_id}/{ref.group}/{ref.kind}/{ref.namespace}/{ref.name}"
        self._outbox.put(topic, drift_to_wire(found).SerializeToString())

    def verified(self, verified: VerificationResult) -> None:
        report = pb.Report(verified=verification_result_to_message(verified))
        topic = f"verified/{verified.service_id}/{verified.digest}"
        self._outbox.put(topic, report.SerializeToString())

    def job(self, status: JobStatus) -> None:
        self._outbox.put(f"job/{status.command_id}", job_to_wire(status).SerializeToString())

    def facts(self, facts: ClusterFacts) -> None:
        self._outbox.put(
            "facts", pb.Report(facts=cluster_facts_to_message(facts)).SerializeToString()
        )

    def mirror(self, mirror: LocalServiceReport) -> None:
        body = mirror_to_wire(mirror).SerializeToString()
        self._outbox.put(f"mirror/{mirror.service_id}", body)

    def done(self, done: CommandAnswer) -> None:
        self._outbox.put(f"command/{done.command_id}", done_to_wire(done).SerializeToString())


def _merge(older: bytes, newer: bytes) -> bytes | None:
    if len(older) + len(newer) > _MERGED_BYTES:
        return None
    merged = merge_inventories(pb.Report.FromString(older), pb.Report.FromString(newer))
    return merged.SerializeToString()
