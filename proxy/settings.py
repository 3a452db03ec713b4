"""Settings of the door, in groups; unknown keys are refused."""

from pydantic import BaseModel, ConfigDict

from proxy.domain.limits import HeadLimits, StreamLimits, Timeouts


class ProxySettings(BaseModel):
    """`memory`: bytes of received data that may wait for slow readers, over all requests."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    head: HeadLimits = HeadLimits()
    streams: StreamLimits = StreamLimits()
    timeouts: Timeouts = Timeouts()
    memory: int = 128 << 20
