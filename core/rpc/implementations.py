"""The two gRPC implementations."""

from enum import StrEnum


class GrpcImplementation(StrEnum):
    """`http2`: Towline's own, at a third of the cost. `grpcio`: the library, as a fallback."""

    HTTP2 = "http2"
    GRPCIO = "grpcio"
