"""Sealed values: filled in right before an apply, and stored nowhere."""

from core.sealing import mask_secrets
from syncagent.domain.drift import live_digest
from syncagent.domain.ignored_differences import owned_part
from syncagent.domain.objects import KubeObject
from syncagent.domain.ownership import SERVICE_LABEL, HookManifest, ObjectManifest
from syncagent.domain.sealed_values import with_plain_values
from syncagent.ports import RequestRefused
from syncagent.reconcile.context import ReconcileContext
from syncagent.reconcile.masking import open_sealed


async def apply(
    context: ReconcileContext,
    manifest: ObjectManifest | HookManifest,
    body: KubeObject,
    *,
    force: bool,
    dry_run: bool = False,
) -> KubeObject:
    """Applies a manifest's body, or a part of it, server-side with its secrets filled in.
    Invalid: a sealed value cannot be opened. Refused: the message contains no secret value.
    """
    if not manifest.sealed_values:
        return await context.cluster.apply(manifest.ref, body, force=force, dry_run=dry_run)
    service_id = body["metadata"]["labels"][SERVICE_LABEL]
    values = {
        sealed_value.name: open_sealed(context.key, context.identities, sealed_value, service_id)
        for sealed_value in manifest.sealed_values
    }
    whole = with_plain_values(body, values)
    try:
        return await context.cluster.apply(manifest.ref, whole, force=force, dry_run=dry_run)
    except RequestRefused as error:
        words = [value.decode(errors="replace") for value in values.values()]
        words += [v for v in whole["data"].values() if v not in body["data"].values()]
        message = mask_secrets(error.message, words)
        raise RequestRefused(message, status=error.status, reason=error.reason) from None


def live_state(context: ReconcileContext, manifest: ObjectManifest, live: KubeObject) -> str:
    """Returns a digest of a manifest's live fields; it reveals no secret value to others."""
    state = live_digest(owned_part(manifest, live), live)
    return context.key.fingerprint(state) if manifest.sealed_values else state
