"""Replicas of the control plane."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Replica:
    """A process of the control plane; `heartbeat` is its last sign of life, by its own clock.

    Other replicas reach it at `address` (host:port).
    """

    id: str
    address: str
    heartbeat: datetime
