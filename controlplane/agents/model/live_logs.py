"""Recent log output of running jobs."""

from collections import OrderedDict
from dataclasses import dataclass, field

_BYTES_A_JOB = 1 << 20
_JOBS = 64


@dataclass(slots=True)
class _Log:
    start: int = 0
    data: bytearray = field(default_factory=bytearray)

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class LiveLogs:
    """The last MiB of each of the 64 most recently active jobs, in this process only."""

    def __init__(self) -> None:
        self._logs: OrderedDict[str, _Log] = OrderedDict()

    def append(self, job_id: str, offset: int, data: bytes) -> None:
        """Appends a piece. Skips a repeated piece; after a gap the log starts over."""
        log = self._logs.setdefault(job_id, _Log(start=offset))
        self._logs.move_to_end(job_id)
        if offset > log.end:
            log.start, log.data = offset, bytearray()
        log.data += data[log.end - offset :]
        if (surplus := len(log.data) - _BYTES_A_JOB) > 0:
            del log.data[:surplus]
            log.start += surplus
        while len(self._logs) > _JOBS:
            self._logs.popitem(last=False)

    def read(self, job_id: str, offset: int) -> tuple[int, bytes]:
        """Returns the log from `offset` on, as far as it is kept, and where it begins."""
        log = self._logs.get(job_id)
        if log is None or offset >= log.end:
            return offset, b""
        begin = max(offset, log.start)
        return begin, bytes(log.data[begin - log.start :])
