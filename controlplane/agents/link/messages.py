"""Translates services and commands of the control plane to messages.

`core.wire.codec` and `core.wire.report_codec` have the values that agents share.
"""

import base64
from collections.abc import Iterable

from controlplane.agents.model.selections import selection_of
from controlplane.agents.operations.sessions import AgentHello
from controlplane.clusters.model.cluster import AgentMode
from controlplane.clusters.model.commands import Command, CommandKind
from controlplane.services.model.service import Service
from core.spec.desired import BundleSpec, Desired
from core.spec.fences import ServiceFence
from core.spec.objects import ObjectRef
from core.spec.sealed_secrets import SealedSecret
from core.wire import codec
from core.wire.codec import plain_text
from core.wire.report_codec import cluster_facts_from_message
from core.wire.v1 import agent_pb2 as wire

_SEALING_KEY_BYTES = 32


def hello_from_message(hello: wire.Hello) -> AgentHello:
    """Translates the agent's first message."""
    autonomous = hello.mode == wire.MODE_AUTONOMOUS
    sealing_key = hello.sealing_key if len(hello.sealing_key) == _SEALING_KEY_BYTES else None
    return AgentHello(
        instance=plain_text(hello.instance_id),
        agent_version=plain_text(hello.agent_version),
        facts=cluster_facts_from_message(hello.facts),
        mode=AgentMode.AUTONOMOUS if autonomous else AgentMode.MANAGED,
        sealing_key=sealing_key,
    )


def desired(
    service: Service,
    secrets: Iterable[SealedSecret] = (),
    bundle: bytes = b"",
    fence: ServiceFence | None = None,
) -> wire.Desired:
    """Encodes the desired state of a service, deleted or not.

    `secrets` are the values that its bundle references. `bundle` is included if it is small.
    `fence` is that of its project.
    """
    if service.removal is not None:
        removal = Desired(
            service.id,
            service.desired.generation,
            removal=service.removal,
            confirmed=_confirmed_deletions(service),
            fence=fence,
        )
        return codec.desired_to_message(removal)
    spec = BundleSpec(
        name=service.name,
        namespace=service.namespace,
        digest=service.desired.digest or "",
        size=service.desired.bundle_bytes,
        options=service.spec.options,
        commit=service.desired.commit_sha or "",
        attestation=service.desired.attestation,
        secrets=tuple(secrets),
        dry_run=service.spec.dry_run,
        paused=service.spec.paused,
    )
    quarantine = service.desired.quarantine
    complete = Desired(
        service.id,
        service.desired.generation,
        spec,
        confirmed=_confirmed_deletions(service),
        verification=service.effective_verification,
        lifted=quarantine is not None
        and bool(quarantine.lifted_by)
        and quarantine.digest == service.desired.digest,
        fence=fence,
    )
    message = codec.desired_to_message(complete)
    message.spec.bundle = bundle
    return message


def _confirmed_deletions(service: Service) -> tuple[ObjectRef, ...]:
    """Returns the deletions that a user has confirmed for the newest generation."""
    confirmed = service.desired.confirmed
    if confirmed is None or confirmed.generation != service.desired.generation:
        return ()
    return confirmed.objects


def orphan_service(service_id: str, sequence: int) -> wire.Desired:
    """Tells an agent to drop a service that the control plane no longer knows; its objects stay."""
    return wire.Desired(service_id=service_id, sequence=sequence + 1, removal=wire.REMOVAL_ORPHAN)


def command(command_: Command) -> wire.Command:
    """Translates a command; `core.wire.codec` encodes commands that run a job."""
    match command_.kind:
        case CommandKind.TERMINATE:
            terminate = wire.Terminate(service_id=command_.payload["service"])
            return wire.Command(id=command_.id, terminate=terminate)
        case CommandKind.CANCEL_JOB:
            cancel = wire.CancelJob(command_id=command_.payload["job"])
            return wire.Command(id=command_.id, cancel_job=cancel)
        case CommandKind.UPGRADE:
            upgrade = wire.UpgradeAgent(
                version=command_.payload["version"], image=command_.payload["image"]
            )
            return wire.Command(id=command_.id, upgrade=upgrade)
        case CommandKind.FREEZE:
            order = wire.FreezeOrder(statement=command_.payload["statement"])
            return wire.Command(id=command_.id, freeze=order)
        case CommandKind.RENDER:
            sealed_order = base64.b64decode(command_.payload["box"])
            return wire.Command(id=command_.id, render=wire.RenderOrder(box=sealed_order))
        case CommandKind.SYNC_NOW if (selection := selection_of(command_)) is not None:
            sync_objects = codec.selection_to_message(command_.payload["service"], selection)
            return wire.Command(id=command_.id, sync_objects=sync_objects)
        case _:
            sync_now = wire.SyncNow(service_id=command_.payload["service"])
            return wire.Command(id=command_.id, sync_now=sync_now)
