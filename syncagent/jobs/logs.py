"""Logs of jobs: their tails for storage, and complete lines as they arrive."""

from collections.abc import Collection, Sequence

import structlog

from core.errors import TowlineError
from core.runtime.tasks import Tasks
from core.sealing import mask_secrets
from core.spec.objects import ObjectRef
from syncagent.domain.objects import KubeObject, ref_of
from syncagent.jobs.template import containers_of
from syncagent.ports import JobCluster, LiveLog

log = structlog.get_logger(__name__)

TAIL_BYTES = 60 * 1024
_PIECE_BYTES = 32 * 1024


async def tail_of(cluster: JobCluster, pods: Sequence[KubeObject]) -> str:
    """Reads the ends of the logs of the newest pod's containers; unreadable logs become a note."""
    if not pods:
        return ""
    pod = pods[-1]
    names, parts = containers_of(pod), []
    most = TAIL_BYTES // max(1, len(names))
    for name in names:
        try:
            text = _whole_lines(await cluster.job_log(ref_of(pod), name, most), most)
        except TowlineError as error:
            text = f"(its log cannot be read: {error.message})"
        parts.append(text if len(names) == 1 else f"==> {name} <==\n{text}")
    return _whole_lines("\n".join(parts)[-TAIL_BYTES:], TAIL_BYTES)


def _whole_lines(text: str, max_bytes: int) -> str:
    """Drops a partial first line: masking would miss half of a secret."""
    return text if len(text.encode()) < max_bytes else text.partition("\n")[2] or text


class LogFollower:
    """Streams a job's log while it runs: the first container of each pod, once, in complete
    lines.
    """

    def __init__(
        self, cluster: JobCluster, live: LiveLog, command_id: str, values: Collection[str]
    ) -> None:
        self._cluster = cluster
        self._live = live
        self._command_id = command_id
        self._values = values
        self._followed: set[ObjectRef] = set()
        self._offset = 0

    def look(self, pods: Sequence[KubeObject], tasks: Tasks) -> None:
        """Starts to follow pods that have started."""
        for pod in pods:
            ref, names = ref_of(pod), containers_of(pod)
            if names and ref not in self._followed:
                self._followed.add(ref)
                tasks.spawn("log", self._follow(ref, names[0]))

    async def _follow(self, ref: ObjectRef, container: str) -> None:
        try:
            await self._cluster.follow_log(ref, container, self._send_line)
        except TowlineError as error:
            log.info("a job's log ended early", job=self._command_id, reason=error.message)

    def _send_line(self, line: bytes) -> None:
        text = mask_secrets(line.decode(errors="replace"), self._values).encode()
        for start in range(0, len(text), _PIECE_BYTES):
            piece = text[start : start + _PIECE_BYTES]
            self._live(self._command_id, self._offset, piece)
            self._offset += len(piece)
