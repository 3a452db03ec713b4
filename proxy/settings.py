"""Settings of the Kubernetes proxy, in groups; unknown keys are refused."""

from dataclasses import asdict

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from proxy.domain.limits import HeadLimits, RecordingLimits, StreamLimits, Timeouts


class ProxySettings(BaseModel):
    """Settings of the Kubernetes proxy.
    `memory`: maximum bytes of received data that wait for slow readers, over all requests (default
    128 MiB). `passthrough`: handles of the clusters whose API server authenticates the user's own
    token (default: none).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    head: HeadLimits = HeadLimits()
    streams: StreamLimits = StreamLimits()
    timeouts: Timeouts = Timeouts()
    memory: int = Field(128 << 20, ge=1 << 20)
    recordings: RecordingLimits = RecordingLimits()
    passthrough: frozenset[str] = frozenset()

    @field_validator("passthrough", mode="before")
    @classmethod
    def _listed(cls, handles: object) -> object:
        return (
            [handle.strip() for handle in handles.split(",")]
            if isinstance(handles, str)
            else handles
        )

    @model_validator(mode="after")
    def _bounds_hold(self) -> "ProxySettings":
        for group in ("head", "streams", "timeouts", "recordings"):
            for name, value in asdict(getattr(self, group)).items():
                if value <= 0:
                    raise ValueError(f"{group}.{name} must be above 0")
        return self
