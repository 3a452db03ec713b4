"""State of a pod: ready, done, waiting or failed, with the reason."""

from collections.abc import Iterator
from dataclasses import dataclass

from syncagent.domain.objects import KubeFields, KubeObject

_BROKEN = {
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
}


@dataclass(frozen=True, slots=True)
class PodFacts:
    """State of a pod. `failure` and `waiting` are messages; `reason` is Kubernetes' term for
    either.
    """

    ready: bool = False
    done: bool = False
    failure: str = ""
    waiting: str = ""
    reason: str = ""


def pod_health_facts(pod: KubeObject) -> PodFacts:
    """Reads the state of a live pod."""
    status = pod.get("status") or {}
    phase = status.get("phase")
    if phase == "Succeeded":
        return PodFacts(done=True)
    if phase == "Failed":
        reason = status.get("reason") or "Failed"
        return PodFacts(failure=status.get("message") or _last_exit(status), reason=reason)
    for container in _containers(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _BROKEN:
            return PodFacts(failure=_why(container, waiting), reason=waiting["reason"])
    return _by_conditions(status)


@dataclass(frozen=True, slots=True)
class Crash:
    """The last crash of a container: number `count`; `previous`: the container has
    restarted since.
    """

    container: str
    count: int
    previous: bool


def crash_of(pod: KubeObject) -> Crash | None:
    """Finds the present crash of a pod; None if no container crashed."""
    status = pod.get("status") or {}
    for container in _containers(status):
        state = container.get("state") or {}
        looping = (state.get("waiting") or {}).get("reason") == "CrashLoopBackOff"
        if looping or (state.get("terminated") or {}).get("exitCode"):
            name, count = str(container.get("name")), container.get("restartCount") or 0
            return Crash(name, count, looping)
    return None


def restarts_of(pod: KubeObject) -> int:
    """Sums the restarts of a pod's containers."""
    return sum(
        container.get("restartCount") or 0 for container in _containers(pod.get("status") or {})
    )


def images_of(obj: KubeObject) -> tuple[str, ...]:
    """Lists the images of a pod or of a workload's pod template, in order and without
    duplicates.
    """
    spec = obj.get("spec")
    for step in ("jobTemplate", "spec", "template", "spec"):
        if isinstance(spec, dict) and isinstance(spec.get(step), dict):
            spec = spec[step]
    if not isinstance(spec, dict):
        return ()
    listed = [spec.get("initContainers"), spec.get("containers")]
    containers = [container for part in listed if isinstance(part, list) for container in part]
    named = (c.get("image") for c in containers if isinstance(c, dict))
    return tuple(dict.fromkeys(image for image in named if isinstance(image, str)))


def _by_conditions(status: KubeFields) -> PodFacts:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") == "True":
            return PodFacts(ready=True)
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return PodFacts(
                waiting=condition.get("message") or "is not scheduled yet",
                reason=condition.get("reason") or "Unschedulable",
            )
    return PodFacts(waiting="is not ready yet")


def _containers(status: KubeFields) -> Iterator[KubeFields]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _why(container: KubeFields, waiting: KubeFields) -> str:
    text = f"container {container.get('name')}: {waiting.get('message') or waiting['reason']}"
    ended = (container.get("lastState") or {}).get("terminated") or {}
    if "exitCode" in ended:
        killed = ", OOMKilled" if ended.get("reason") == "OOMKilled" else ""
        text += f" (last exit code {ended['exitCode']}{killed})"
    return text


def _last_exit(status: KubeFields) -> str:
    for container in _containers(status):
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            return f"container {container.get('name')} ended with exit code {ended['exitCode']}"
    return "failed"
