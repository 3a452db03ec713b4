"""Who speaks gRPC."""

from enum import StrEnum


class Wire(StrEnum):
    """`http2`: our own, which costs a third. `grpcio`: the library, as the way back."""

    HTTP2 = "http2"
    GRPCIO = "grpcio"
