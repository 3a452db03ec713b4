"""Open requests as people look at them."""

from dataclasses import dataclass
from datetime import datetime

from fleet.identity import ClusterId


@dataclass(frozen=True, slots=True)
class OpenStream:
    """One request that is under way. `kind`: `upgrade`, `watch` or `plain`; bytes of bodies."""

    id: str
    since: datetime
    cluster_id: ClusterId
    handle: str
    user_id: str
    user: str
    acting_as: str
    what: str
    kind: str
    source: str
    user_agent: str
    bytes_in: int
    bytes_out: int
    recorded: bool
