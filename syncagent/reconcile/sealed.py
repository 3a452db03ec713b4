"""Sealed values: filled in right before an apply, and stored nowhere."""

from fleet.sealing import masked
from syncagent.domain.drift import live_digest
from syncagent.domain.leaving import kept
from syncagent.domain.objects import KubeObject
from syncagent.domain.ownership import SERVICE_LABEL, HookManifest, Manifest
from syncagent.domain.sealed import filled
from syncagent.ports import Refused
from syncagent.reconcile.masking import opened
from syncagent.reconcile.tools import Tools


async def apply(
    tools: Tools,
    manifest: Manifest | HookManifest,
    body: KubeObject,
    *,
    force: bool,
    dry_run: bool = False,
) -> KubeObject:
    """Applies a manifest's body, or a part of it, server-side with its secrets filled in.
    Invalid: a sealed value cannot be opened. Refused: the message contains no secret value.
    """
    if not manifest.boxes:
        return await tools.cluster.apply(manifest.ref, body, force=force, dry_run=dry_run)
    service_id = body["metadata"]["labels"][SERVICE_LABEL]
    values = {
        box.name: opened(tools.key, tools.identities, box, service_id) for box in manifest.boxes
    }
    whole = filled(body, values)
    try:
        return await tools.cluster.apply(manifest.ref, whole, force=force, dry_run=dry_run)
    except Refused as error:
        words = [value.decode(errors="replace") for value in values.values()]
        words += [v for v in whole["data"].values() if v not in body["data"].values()]
        message = masked(error.message, words)
        raise Refused(message, status=error.status, reason=error.reason) from None


def live_state(tools: Tools, manifest: Manifest, live: KubeObject) -> str:
    """Returns a digest of a manifest's live fields; it reveals no secret value to others."""
    state = live_digest(kept(manifest, live), live)
    return tools.key.name(state) if manifest.boxes else state
