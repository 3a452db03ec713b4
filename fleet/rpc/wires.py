"""Who speaks gRPC."""

from enum import StrEnum
from importlib import import_module
from types import ModuleType


class Wire(StrEnum):
    """`http2`: our own, which costs a third. `grpcio`: the library, as the way back."""

    HTTP2 = "http2"
    GRPCIO = "grpcio"


def grpcio() -> ModuleType:
    """`fleet.rpc.grpcio`, loaded when it is asked for: its libraries take some 10 MB."""
    return import_module("fleet.rpc.grpcio")
