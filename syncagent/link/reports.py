"""Puts reports into the outbox: the port `ServiceReports`."""

from core.spec.facts import ClusterFacts
from core.spec.jobs import JobStatus
from core.spec.reports.commands import CommandAnswer
from core.spec.reports.drift import DriftFound
from core.spec.reports.inventory import InventoryChange
from core.spec.reports.local_services import LocalServiceReport
from core.spec.reports.report import ReportBody
from core.spec.status import SyncStatus
from core.spec.verification import VerificationResult
from core.wire.report_codec import inventory_from_message, report_to_message
from core.wire.v1 import agent_pb2 as pb
from syncagent.domain.observed.inventory import merge_inventories
from syncagent.ports import Merge, Outbox

# Longer inventories are not merged: one message must not delay the others.
_MERGED_BYTES = 256 << 10


class OutboxReports:
    """Writes reports to the outbox; each topic keeps only its newest report."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def status(self, status: SyncStatus) -> None:
        self._put(f"status/{status.service_id}", status)

    def inventory(self, change: InventoryChange) -> None:
        self._put(f"inventory/{change.service_id}", change, _merge)

    def drift(self, found: DriftFound) -> None:
        self._put("/".join(("drift", found.service_id, *found.ref.key)), found)

    def verified(self, verified: VerificationResult) -> None:
        self._put(f"verified/{verified.service_id}/{verified.digest}", verified)

    def job(self, status: JobStatus) -> None:
        self._put(f"job/{status.command_id}", status)

    def facts(self, facts: ClusterFacts) -> None:
        self._put("facts", facts)

    def mirror(self, mirror: LocalServiceReport) -> None:
        self._put(f"mirror/{mirror.service_id}", mirror)

    def done(self, done: CommandAnswer) -> None:
        self._put(f"command/{done.command_id}", done)

    def _put(self, topic: str, body: ReportBody, merge: Merge | None = None) -> None:
        self._outbox.put(topic, report_to_message(body).SerializeToString(), merge)


def _merge(older: bytes, newer: bytes) -> bytes | None:
    if len(older) + len(newer) > _MERGED_BYTES:
        return None
    before, after = (
        inventory_from_message(pb.Report.FromString(body).inventory) for body in (older, newer)
    )
    return report_to_message(merge_inventories(before, after)).SerializeToString()
