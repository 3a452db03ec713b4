"""Settings of the Kubernetes proxy, in groups; unknown keys are refused."""

import re
from dataclasses import asdict
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from core.native import is_available
from proxy.domain.limits import HeadLimits, RecordingLimits, StreamLimits, Timeouts

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
# OpenSSL accepts no wildcard certificate of a domain with one label. The last label of an IP
# address is a number.
_DOMAIN = re.compile(rf"(?:{_LABEL}\.)+(?![0-9]+\Z){_LABEL}")
# A name has at most 253 characters, and a handle 63.
_MAX_DOMAIN = 189


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
    `cluster_domain`: domain for addresses of clusters without a path, `<handle>.<cluster_domain>`
    (default: none).
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
    cluster_domain: str = ""

    @property
    def uses_native(self) -> bool:
        """Reports whether the native data plane runs beside the portable one."""
        return self.data_plane is not DataPlane.PORTABLE and is_available()

    @field_validator("passthrough", mode="before")
    @classmethod
    def _split_handles(cls, handles: object) -> object:
        return (
            [handle.strip() for handle in handles.split(",")]
            if isinstance(handles, str)
            else handles
        )

    @field_validator("cluster_domain")
    @classmethod
    def _validate_domain(cls, text: str) -> str:
        domain = text.strip().lower().removesuffix(".")
        if domain and (len(domain) > _MAX_DOMAIN or _DOMAIN.fullmatch(domain) is None):
            raise ValueError(
                f"{text!r} must be a domain of at least two labels, such as clusters.example.org"
            )
        return domain

    @model_validator(mode="after")
    def _validate(self) -> "ProxySettings":
        for group in ("head", "streams", "timeouts", "recordings"):
            for name, value in asdict(getattr(self, group)).items():
                if value <= 0:
                    raise ValueError(f"{group}.{name} must be above 0")
        if self.data_plane is DataPlane.NATIVE and not is_available():
            raise ValueError("data_plane is native, but the module towline_native is not installed")
        return self
