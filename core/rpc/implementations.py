"""The two gRPC implementations."""

from enum import StrEnum
from importlib import import_module
from types import ModuleType


class GrpcImplementation(StrEnum):
    """`http2`: Towline's own, at a third of the cost. `grpcio`: the library, as a fallback."""

    HTTP2 = "http2"
    GRPCIO = "grpcio"


def grpcio() -> ModuleType:
    """Imports `core.rpc.grpcio` on demand: its libraries need about 10 MB."""
    return import_module("core.rpc.grpcio")
