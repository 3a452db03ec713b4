"""The two gRPC implementations."""

from enum import StrEnum
from importlib import import_module
from types import ModuleType


class Wire(StrEnum):
    """`http2`: Towline's own, at a third of the cost. `grpcio`: the library, as a fallback."""

    HTTP2 = "http2"
    GRPCIO = "grpcio"


def grpcio() -> ModuleType:
    """Imports `fleet.rpc.grpcio` on demand: its libraries need about 10 MB."""
    return import_module("fleet.rpc.grpcio")
