"""Upgrade of the agent: test of the new image, replacement, and rollback after a failure.
An upgrade is a Job in the agent's own namespace, so it outlives the agent that started it, and the
next agent reports its result. The first container is the canary: it runs `towline agent doctor` in
the new image, which checks that the image starts, reaches the control plane and has its
permissions. Only then the second container, of the old image, changes the Deployment and waits for
a connected (ready) pod. It changes the Deployment back if there is none in time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from core.errors import Invalid, TowlineError, Unavailable
from core.runtime.backoff import Backoff
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.spec.jobs import JobSpec
from core.spec.objects import ObjectRef
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from syncagent.domain.objects import KubeFields, KubeObject
from syncagent.ports import CommandAnswers, JobCommands, RequestRefused

log = structlog.get_logger(__name__)

TIMEOUT_S = 900
_WAIT_S = 300
_LOOK_S = 3.0
_COPIED = ("env", "envFrom", "volumeMounts", "resources", "securityContext")
_POD = (
    "serviceAccountName",
    "volumes",
    "imagePullSecrets",
    "securityContext",
    "nodeSelector",
    "tolerations",
    "enableServiceLinks",
)


class DeploymentApi(Protocol):
    """API server operations of an upgrade."""

    async def get(self, ref: ObjectRef) -> KubeObject | None: ...

    async def merge(self, ref: ObjectRef, patch: KubeObject) -> None: ...


@dataclass(frozen=True, slots=True)
class AgentDeployment:
    """The agent's own Deployment, and the names of images, without tag or digest, that may replace
    it.
    """

    namespace: str
    deployment: str
    images: frozenset[str]

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef("apps", "v1", "Deployment", self.namespace, self.deployment)


class Upgrader:
    """Handles upgrade commands; a job does the work."""

    def __init__(
        self,
        agent_deployment: AgentDeployment | None,
        cluster: DeploymentApi,
        jobs: JobCommands,
        answers: CommandAnswers,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._begun: set[str] = set()
        self._agent_deployment = agent_deployment
        self._cluster = cluster
        self._jobs = jobs
        self._answers = answers
        self._tasks = Tasks("upgrade")

    async def stop(self) -> None:
        await self._tasks.stop()

    def upgrade(self, command_id: str, version: str, image: str) -> None:
        """Begins an upgrade, or resumes it; the command gets its result when the job ends."""
        if command_id not in self._begun:
            self._begun.add(command_id)
            self._tasks.spawn("upgrade", self._start(command_id, image))

    async def _start(self, command_id: str, image: str) -> None:
        """Begins an upgrade with retries while the API server or the disk fails; refuses impossible
        ones.
        """
        backoff = Backoff(first=1.0, limit=30.0)
        try:
            while not await self._try_start(command_id, image):
                await self._clock.sleep(backoff.next())
        finally:
            self._begun.discard(command_id)

    async def _try_start(self, command_id: str, image: str) -> bool:
        """Tries once to begin; False if it must be retried."""
        try:
            self._start_job(command_id, image, await self._live_deployment(image))
        except TowlineError as error:
            log.error("no upgrade", reason=error.message)
            if _is_transient(error):
                return False
            return self._refuse(command_id, error.message)
        return True

    async def _live_deployment(self, image: str) -> KubeObject:
        agent_deployment = self._check_image(image)
        live = await self._cluster.get(agent_deployment.ref)
        if live is None:
            raise Invalid(f"{agent_deployment.ref} does not exist")
        return live

    def _start_job(self, command_id: str, image: str, live: KubeObject) -> None:
        agent_deployment = self._check_image(image)
        manifest = upgrade_job(agent_deployment, live, image)
        self._jobs.run(
            JobSpec(command_id, agent_deployment.namespace, manifest, TIMEOUT_S, own=True)
        )

    def _refuse(self, command_id: str, reason: str) -> bool:
        """Refuses the command; False if the answer could not be stored."""
        try:
            self._answers.done(CommandAnswer(command_id, CommandOutcome.REFUSED, reason))
        except Unavailable:
            return False
        return True

    def _check_image(self, image: str) -> AgentDeployment:
        """Checks the image against the operator's list, because it can run any code here."""
        if self._agent_deployment is None:
            raise Invalid("the agent's own Deployment is not configured (upgrade.deployment)")
        if name_of_image(image) not in self._agent_deployment.images:
            raise Invalid(
                f"this agent's settings do not allow the image {image}; allowed: "
                f"{', '.join(sorted(self._agent_deployment.images)) or 'none'}"
            )
        return self._agent_deployment


def name_of_image(image: str) -> str:
    """Returns the repository of an image, without its tag or digest."""
    name = image.partition("@")[0]
    head, slash, tail = name.rpartition("/")
    return head + slash + tail.partition(":")[0]


def upgrade_job(
    agent_deployment: AgentDeployment, deployment: KubeObject, image: str
) -> KubeObject:
    """Builds the Job that tests an image and then installs it. Invalid: unexpected form of the
    Deployment.
    """
    pod, agent = _pod_of(deployment), _agent_of(deployment)
    shared = {name: agent[name] for name in _COPIED if name in agent}
    names = [
        f"--namespace={agent_deployment.namespace}",
        f"--deployment={agent_deployment.deployment}",
    ]
    canary = {
        "name": "canary",
        "image": image,
        "command": ["towline", "agent", "doctor", *_doctor_flags(agent)],
    }
    change = {
        "name": "change",
        "image": agent["image"],
        "command": [
            *("towline", "agent", "replace", *names),
            f"--image={image}",
            f"--back-to={agent['image']}",
        ],
    }
    template = {
        **{name: pod[name] for name in _POD if name in pod},
        "restartPolicy": "Never",
        "initContainers": [shared | canary],
        "containers": [shared | change],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": template}}}


async def replace_image(
    cluster: DeploymentApi,
    agent_deployment: ObjectRef,
    image: str,
    old: str,
    clock: Clock,
    patience_s: int = _WAIT_S,
) -> str:
    """Installs an image and waits until it is ready; returns a summary for people.
    It retries while the API server is unreachable. Invalid: the image was not ready in time or
    could not be installed, and the old image is restored. Unavailable: the old image could not be
    restored.
    """
    deadline = clock.monotonic() + patience_s
    try:
        await _set_image(cluster, agent_deployment, image, clock, deadline)
        why = await _not_ready(cluster, agent_deployment, clock, deadline)
    except TowlineError as error:
        why = f"could not be installed: {error.message}"
    if not why:
        return f"{agent_deployment} runs {image} and has connected"
    await _set_image(cluster, agent_deployment, old, clock, clock.monotonic() + patience_s)
    raise Invalid(f"{image} {why}: {agent_deployment} is back at {old}")


async def _not_ready(
    cluster: DeploymentApi, agent_deployment: ObjectRef, clock: Clock, deadline: float
) -> str:
    """Waits until the new image is ready; returns the reason of a failure, or empty."""
    slow = f"did not connect within {deadline - clock.monotonic():.0f} s"
    why = slow
    while clock.monotonic() < deadline:
        await clock.sleep(_LOOK_S)
        try:
            if _rolled_out(await cluster.get(agent_deployment)):
                return ""
            why = slow
        except TowlineError as error:
            why = f"could not be checked ({error.message})"
    return why


async def _set_image(
    cluster: DeploymentApi, agent_deployment: ObjectRef, image: str, clock: Clock, deadline: float
) -> None:
    """Sets the image of the Deployment, with retries until the deadline."""
    while True:
        try:
            live = await cluster.get(agent_deployment)
            if live is None:
                raise Invalid(f"there is no {agent_deployment}")
            if _agent_of(live)["image"] != image:
                await cluster.merge(agent_deployment, _image_patch(live, image))
            return
        except TowlineError as error:
            if not _is_transient(error) or clock.monotonic() >= deadline:
                raise
        await clock.sleep(_LOOK_S)


def _is_transient(error: TowlineError) -> bool:
    """Reports whether a retry may succeed: server unreachable, conflict, or server error."""
    if isinstance(error, RequestRefused):
        return error.status == 409 or error.status >= 500
    return isinstance(error, Unavailable)


def _image_patch(live: KubeObject, image: str) -> KubeObject:
    """Builds a merge patch, which replaces lists as a whole: all containers, one with another
    image.
    It applies only to the version that was read, so that no other change is lost.
    """
    name = _agent_of(live)["name"]
    containers = [
        container | {"image": image} if container["name"] == name else container
        for container in _pod_of(live)["containers"]
    ]
    return {
        "metadata": {"resourceVersion": live["metadata"]["resourceVersion"]},
        "spec": {"template": {"spec": {"containers": containers}}},
    }


def _rolled_out(live: KubeObject | None) -> bool:
    if live is None:
        return False
    status, wanted = live.get("status") or {}, (live.get("spec") or {}).get("replicas", 1)
    seen = status.get("observedGeneration", 0) >= live["metadata"].get("generation", 0)
    fresh = status.get("updatedReplicas", 0) == status.get("replicas", 0) == wanted
    return seen and fresh and status.get("availableReplicas", 0) >= wanted


def _pod_of(deployment: KubeObject) -> KubeFields:
    spec = (deployment.get("spec") or {}).get("template") or {}
    return spec.get("spec") or {"containers": []}


def _agent_of(deployment: KubeObject) -> KubeFields:
    containers: Sequence[KubeFields] = _pod_of(deployment)["containers"]
    agent = next((container for container in containers if container.get("name") == "agent"), None)
    if agent is None or "image" not in agent:
        raise Invalid("the Deployment has no container named agent")
    return agent


def _doctor_flags(agent: KubeFields) -> list[str]:
    """Returns the agent's own arguments that the doctor supports."""
    known = ("--url=", "--token-file=", "--ca-file=", "--data=")
    return [argument for argument in agent.get("args") or () if argument.startswith(known)]
