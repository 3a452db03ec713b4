"""Objects of a job, built from its spec, and the status read from its pods."""

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass

from core.errors import Invalid
from core.sealing import PLACEHOLDER_PREFIX, placeholder
from core.spec.jobs import JobPhase, JobSpec
from core.spec.objects import ObjectRef
from syncagent.domain.objects import KubeFields, KubeObject, metadata_of, ref_of

COMMAND_LABEL = "towline.dev/command"
_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?")
_KINDS = {("batch/v1", "Job"), ("v1", "Pod")}
_KEPT_S = 24 * 3600
# A Job that vanishes at its end looks like one that somebody deleted.
_MIN_KEPT_S = 3600
_MAX_OUTPUT = 4096


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Status of a job as the API server shows it; `phase` is final or the job continues."""

    phase: JobPhase
    message: str = ""
    exit_code: int = 0


def job_object(spec: JobSpec) -> KubeObject:
    """Builds the Job or Pod to create. Invalid: the manifest is neither.
    Its name contains the command's id, so that the API server refuses to create it twice.
    """
    if not _ID.fullmatch(spec.command_id):
        raise Invalid("the command's id cannot be part of a name")
    body = deepcopy(spec.manifest)
    if (body.get("apiVersion"), body.get("kind")) not in _KINDS:
        raise Invalid("a job must be a Job of batch/v1 or a Pod of v1")
    meta = _object_in(body, "metadata")
    meta.pop("generateName", None)
    meta["name"] = name_of(spec.command_id)
    meta["namespace"] = spec.namespace
    _object_in(meta, "labels")[COMMAND_LABEL] = spec.command_id
    inner = _object_in(body, "spec")
    inner.setdefault("activeDeadlineSeconds", spec.timeout_s)
    if body["kind"] == "Job":
        inner.setdefault("backoffLimit", 0)
        inner["ttlSecondsAfterFinished"] = _ttl_s(inner.get("ttlSecondsAfterFinished"))
        template = _object_in(inner, "template")
        _object_in(_object_in(template, "metadata"), "labels")[COMMAND_LABEL] = spec.command_id
        inner = _object_in(template, "spec")
    inner.setdefault("restartPolicy", "Never")
    _name_secrets(inner, meta["name"], {secret.name for secret in spec.secrets})
    return body


def name_of(command_id: str) -> str:
    return f"towline-job-{command_id}"


def secret_object(ref: ObjectRef, command_id: str, values: Mapping[str, str]) -> KubeObject:
    """Builds the Secret for the job's environment; it has the job's name."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": ref.name,
            "namespace": ref.namespace,
            "labels": {COMMAND_LABEL: command_id},
        },
        "stringData": dict(values),
    }


def secret_ref(job: ObjectRef) -> ObjectRef:
    """Returns the reference of that Secret."""
    return ObjectRef("", "v1", "Secret", job.namespace, job.name)


def owned_by(live: KubeObject) -> KubeObject:
    """Builds a patch that makes the job the owner of an object."""
    ref = ref_of(live)
    owner = {
        "apiVersion": live["apiVersion"],
        "kind": ref.kind,
        "name": ref.name,
        "uid": metadata_of(live)["uid"],
    }
    return {"metadata": {"ownerReferences": [owner]}}


def is_ours(live: KubeObject, command_id: str) -> bool:
    """Reports whether an object with the job's name belongs to this job."""
    return (metadata_of(live).get("labels") or {}).get(COMMAND_LABEL) == command_id


def progress(live: KubeObject, pods: Iterable[KubeObject]) -> JobProgress:
    """Reads the status of a job."""
    if live.get("kind") == "Pod":
        return _progress_of_pod(live)
    status = live.get("status") or {}
    code = max((_progress_of_pod(pod).exit_code for pod in pods), default=0)
    for condition in status.get("conditions") or ():
        if condition.get("status") != "True":
            continue
        if condition.get("type") == "Complete":
            return JobProgress(JobPhase.SUCCEEDED)
        if condition.get("type") == "Failed":
            why = condition.get("message") or condition.get("reason") or "the job failed"
            return JobProgress(JobPhase.FAILED, why, code)
    waiting = next((text for pod in pods if (text := _waiting_reason(pod))), "")
    return JobProgress(JobPhase.RUNNING if status.get("active") else JobPhase.PENDING, waiting)


def outputs_of(pods: Iterable[KubeObject]) -> dict[str, str]:
    """Reads the termination messages by container; those of the newest pod take precedence."""
    found: dict[str, str] = {}
    for pod in pods:
        for status in (pod.get("status") or {}).get("containerStatuses") or ():
            text = _terminated(status).get("message")
            if text:
                found[status["name"]] = text[:_MAX_OUTPUT]
    return found


def containers_of(pod: KubeObject) -> list[str]:
    """Lists the names of a pod's started containers in order."""
    states = (pod.get("status") or {}).get("containerStatuses") or ()
    begun = {s["name"] for s in states if not (s.get("state") or {}).get("waiting")}
    listed = (pod.get("spec") or {}).get("containers") or ()
    return [container["name"] for container in listed if container["name"] in begun]


def _progress_of_pod(pod: KubeObject) -> JobProgress:
    status = pod.get("status") or {}
    states = status.get("containerStatuses") or ()
    code = max((_terminated(status).get("exitCode") or 0 for status in states), default=0)
    match status.get("phase"):
        case "Succeeded":
            return JobProgress(JobPhase.SUCCEEDED)
        case "Failed":
            reasons = [_terminated(status).get("reason") for status in states]
            why = status.get("message") or status.get("reason") or next(filter(None, reasons), "")
            return JobProgress(
                JobPhase.FAILED, f"{why or 'the pod failed'} (exit code {code})", code
            )
        case "Running":
            return JobProgress(JobPhase.RUNNING)
    return JobProgress(JobPhase.PENDING, _waiting_reason(pod))


def _waiting_reason(pod: KubeObject) -> str:
    """Reason why a pod does not run: a waiting container, or no suitable node."""
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        waits = (container.get("state") or {}).get("waiting") or {}
        if waits.get("message"):
            return f"{container['name']}: {waits.get('reason')}: {waits['message']}"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return condition.get("message") or ""
    return ""


def _terminated(container: KubeFields) -> KubeFields:
    return (container.get("state") or {}).get("terminated") or {}


def _name_secrets(pod: KubeFields, secret: str, given: set[str]) -> None:
    """Turns environment variables with a placeholder into references to the job's Secret."""
    for kind in ("initContainers", "containers"):
        for container in pod.get(kind) or ():
            for variable in container.get("env") or ():
                _name_secret(variable, secret, given)


def _name_secret(variable: dict[str, object], secret: str, given: set[str]) -> None:
    text = variable.get("value")
    if not isinstance(text, str) or PLACEHOLDER_PREFIX.decode() not in text:
        return
    name = next((name for name in given if text == placeholder(name)), None)
    if name is None:
        raise Invalid(f"{variable.get('name')} refers to an unknown secret, or has text around it")
    del variable["value"]
    variable["valueFrom"] = {"secretKeyRef": {"name": secret, "key": name}}


def _ttl_s(wanted: object) -> int:
    return max(wanted, _MIN_KEPT_S) if isinstance(wanted, int) else _KEPT_S


def _object_in(parent: dict[str, object], name: str) -> dict[str, object]:
    inner = parent.setdefault(name, {})
    if not isinstance(inner, dict):
        raise Invalid(f"{name} of the manifest is not an object")
    return inner
