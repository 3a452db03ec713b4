"""Settings of the Kubernetes proxy, in groups; unknown keys are refused."""

from dataclasses import asdict
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from core.native import is_available
from proxy.domain.limits import HeadLimits, RecordingLimits, StreamLimits, Timeouts


class DataPlane(StrEnum):
    """Implementation of the proxy's data plane.
    `portable`: Python alone. `native`: the extension module too, which must be installed. `auto`:
    native where it is installed.
    """

    PORTABLE = "portable"
    NATIVE = "native"
    AUTO = "auto"


class ProxySettings(BaseModel):
    """Settings of the Kubernetes proxy.
    `memory`: maximum bytes of received data that wait for slow readers, over all requests (default
    128 MiB). `passthrough`: handles of the clusters whose API server authenticates the user's own
    token (default: none). `data_plane`: see `DataPlane` (default: `auto`). `http2`: offer HTTP/2 to
    users; only the native data plane can (default: true).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    head: HeadLimits = HeadLimits()
    streams: StreamLimits = StreamLimits()
    timeouts: Timeouts = Timeouts()
    memory: int = Field(128 << 20, ge=1 << 20)
    recordings: RecordingLimits = RecordingLimits()
    passthrough: frozenset[str] = frozenset()
    data_plane: DataPlane = DataPlane.AUTO
    http2: bool = True

    @property
    def uses_native(self) -> bool:
        """Reports whether the native data plane runs beside the portable one."""
        return self.data_plane is not DataPlane.PORTABLE and is_available()

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
        if self.data_plane is DataPlane.NATIVE and not is_available():
            raise ValueError("data_plane is native, but the module towline_native is not installed")
        return self
