"""What else explains why something is not well: the last lines of a crashed container's log, and
the events that warn of an object."""

from fleet.errors import TowlineError
from syncagent.domain.health import Health
from syncagent.domain.objects import KubeObject, ObjectRef, metadata_of, ref_of
from syncagent.reconcile.tools import Tools

_TAIL = 600


async def last_words(tools: Tools, live: KubeObject) -> str:
    """How the log of a Pod, or of a Job's failed Pod, ends; empty if that cannot be told."""
    pod = ref_of(live) if live.get("kind") == "Pod" else _failed_pod(tools, live)
    return await log_tail(tools, pod, "", previous=False) if pod else ""


async def log_tail(tools: Tools, pod: ObjectRef, container: str, *, previous: bool) -> str:
    """The end of a container's log in one line; empty if it cannot be had."""
    try:
        text = await tools.cluster.log_tail(pod, container, previous=previous)
    except TowlineError:
        return ""
    lines = (line.strip() for line in text.splitlines())
    return " | ".join(line for line in lines if line)[-_TAIL:]


def _failed_pod(tools: Tools, live: KubeObject) -> ObjectRef | None:
    below = tools.registry.tree.beneath(metadata_of(live).get("uid") or "")
    pods = (one.ref for one in below if one.ref.kind == "Pod" and one.health == Health.FAILED)
    return next(pods, None)
