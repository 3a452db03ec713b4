"""Digests of messages for signed orders: of desired state and of commands.

A digest covers the deterministic encoding of a message, with the fields that a newer version added.
It leaves out the order itself, the bundle, whose digest it covers, and encrypted values, which
differ at each delivery.
"""

from typing import TypeVar

from core.spec.bundle import digest_of
from core.spec.statements.orders import OrderRequest
from core.wire.v1 import agent_pb2 as pb

Message = TypeVar("Message", pb.Desired, pb.Command)


def order_for_desired(cluster_id: str, message: pb.Desired) -> OrderRequest:
    """Makes the order that the desired state of a service needs."""
    bare = _copy_without_order(message)
    if bare.HasField("spec"):
        bare.spec.ClearField("secrets")
        bare.spec.ClearField("bundle")
    return OrderRequest(cluster_id, message.service_id, message.sequence, _digest(bare))


def order_for_command(cluster_id: str, message: pb.Command) -> OrderRequest:
    """Makes the order that a command needs."""
    bare = _copy_without_order(message)
    if bare.HasField("run_job"):
        bare.run_job.ClearField("secrets")
    return OrderRequest(cluster_id, message.id, 0, _digest(bare))


def _copy_without_order(message: Message) -> Message:
    bare = type(message)()
    bare.CopyFrom(message)
    bare.ClearField("order")
    return bare


def _digest(message: pb.Desired | pb.Command) -> str:
    return digest_of(message.SerializeToString(deterministic=True))
