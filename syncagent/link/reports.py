"""Puts reports into the outbox: the port `ServiceReports`."""

from core.identity import is_local_id
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
_MAX_DEPLOYMENTS = 100
"""Maximum number of unsent deployments of one service that an autonomous agent decided on."""


class OutboxReports:
    """Writes reports to the outbox; each topic keeps only its newest report.

    A service of an autonomous cluster has a topic for each deployment: the control plane learns of
    all that it missed.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def status(self, status: SyncStatus) -> None:
        if not is_local_id(status.service_id):
            self._enqueue(f"status/{status.service_id}", status)
            return
        group = f"status/{status.service_id}"
        self._enqueue(f"{group}/{status.sequence}", status)
        self._outbox.trim(group, _MAX_DEPLOYMENTS)

    def inventory(self, change: InventoryChange) -> None:
        self._enqueue(f"inventory/{change.service_id}", change, _merged_inventories)

    def drift(self, found: DriftFound) -> None:
        self._enqueue("/".join(("drift", found.service_id, *found.ref.key)), found)

    def verified(self, verified: VerificationResult) -> None:
        self._enqueue(f"verified/{verified.service_id}/{verified.digest}", verified)

    def job(self, status: JobStatus) -> None:
        self._enqueue(f"job/{status.command_id}", status)

    def facts(self, facts: ClusterFacts) -> None:
        self._enqueue("facts", facts)

    def mirror(self, mirror: LocalServiceReport) -> None:
        group = f"mirror/{mirror.service_id}"
        body = report_to_message(mirror).SerializeToString()
        self._outbox.put_event(f"{group}/{mirror.sequence}", body)
        self._outbox.trim(group, _MAX_DEPLOYMENTS)

    def done(self, done: CommandAnswer) -> None:
        self._enqueue(f"command/{done.command_id}", done)

    def _enqueue(self, topic: str, body: ReportBody, merge: Merge | None = None) -> None:
        self._outbox.put(topic, report_to_message(body).SerializeToString(), merge)


def _merged_inventories(older: bytes, newer: bytes) -> bytes | None:
    if len(older) + len(newer) > _MERGED_BYTES:
        return None
    before, after = (
        inventory_from_message(pb.Report.FromString(body).inventory) for body in (older, newer)
    )
    return report_to_message(merge_inventories(before, after)).SerializeToString()
