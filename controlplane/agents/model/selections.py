"""Syncs of selected objects: their form in the payload of a command, and in the ledger."""

from dataclasses import asdict, replace
from datetime import datetime

from controlplane.clusters.model.commands import Command, CommandKind, CommandState
from controlplane.platform.names import join_names
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Service
from core.json_object import JsonMapping
from core.spec.objects import ObjectRef
from core.spec.sync import ObjectSelection


def selection_payload(service: Service, selection: ObjectSelection, actor: str) -> JsonMapping:
    """Returns the payload of the command."""
    objects = [asdict(ref) for ref in selection.objects]
    return {
        "service": service.id_at_agent,
        "objects": objects,
        "prune": selection.prune,
        "actor": actor,
    }


def selection_of(command: Command) -> ObjectSelection | None:
    """Returns the selected objects of a command; None for every other command."""
    if command.kind is not CommandKind.SYNC_NOW or "objects" not in command.payload:
        return None
    refs = tuple(ObjectRef(**ref) for ref in command.payload["objects"])
    return ObjectSelection(refs, command.payload["prune"])


def selection_entry(
    service: Service, command: Command, state: CommandState, message: str, at: datetime
) -> LedgerEntry:
    """Returns the ledger entry for the agent's answer. It is no deployment of the service."""
    selection = selection_of(command)
    assert selection is not None
    names = [str(ref) for ref in selection.objects]
    text = f"partial sync of {join_names(names)}"
    reason = f": {message[:1000]}" if message else ""
    entry = LedgerEntry.of(
        service,
        LedgerStage.OBJECTS_SYNCED,
        at,
        actor=command.payload["actor"],
        message=f"{text} {state.value}{reason}",
    )
    detail = {"objects": names, "prune": selection.prune, "result": state.value, "id": command.id}
    return replace(entry, detail=detail)
