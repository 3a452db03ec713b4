"""Actions on objects of clusters, as in the console: each is one request to the API server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from core.json_object import JsonObject

_TEMPLATED = ("apps/Deployment", "apps/StatefulSet", "apps/DaemonSet")
_ROLLOUT = ("argoproj.io/Rollout",)
_RESTARTED = "kubectl.kubernetes.io/restartedAt"
_MAX_JOB_NAME = 63


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """Request of an action.

    `subresource`: below the object. `creates`: plural of the objects that a POST creates beside it.
    """

    method: str
    body: JsonObject
    subresource: str = ""
    creates: str = ""


@dataclass(frozen=True, slots=True)
class ActionInput:
    """Values of one run of an action: the time, and the chosen number of replicas."""

    now: str
    suffix: str
    replicas: int = 0


@dataclass(frozen=True, slots=True)
class WorkloadAction:
    """An action on one object in a cluster."""

    id: str
    title: str
    """Verb, with a place for the kind, such as `Restart {}`."""
    kinds: tuple[str, ...]
    """Kinds with their API groups, such as `apps/Deployment`."""
    verb: str
    """Permission that the user needs in the cluster, as RBAC names it."""
    consequence: str
    request: Callable[[JsonObject, ActionInput], ActionRequest]
    applies: Callable[[JsonObject], bool] = lambda _: True
    """Reports whether the state of the object allows the action."""
    subresource: str = ""
    creates: str = ""
    sets_spec: bool = True
    """The action sets a field that Git can set, too."""

    def name(self, kind: str) -> str:
        """Title of the action on an object of a kind."""
        return self.title.format(kind)


def kind_of(component: Mapping[str, Any]) -> str:
    """Kind with its API group."""
    return f"{component['group'] or ''}/{component['kind']}"


def actions_for(component: Mapping[str, Any]) -> list[WorkloadAction]:
    """Actions for the kind of an object."""
    kind = kind_of(component)
    return [action for action in WORKLOAD_ACTIONS if kind in action.kinds]


def notes_of(action: WorkloadAction, live: JsonObject) -> list[str]:
    """Describes the effect of an action on an object."""
    notes = [action.consequence]
    if action.sets_spec:
        notes.append("If Git sets the changed field, self-heal can revert the change.")
    owners = _value_at(live, "metadata", "ownerReferences") or ()
    if action.id == "delete" and not any(owner.get("controller") for owner in owners):
        notes.append("No controller owns this Pod: Kubernetes does not create another one.")
    return notes


def _value_at(document: JsonObject, *keys: str) -> Any:
    value: Any = document
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _restart(live: JsonObject, action_input: ActionInput) -> ActionRequest:
    if live["kind"] == "Rollout":
        return ActionRequest("PATCH", {"spec": {"restartAt": action_input.now}})
    annotations = {"annotations": {_RESTARTED: action_input.now}}
    return ActionRequest("PATCH", {"spec": {"template": {"metadata": annotations}}})


def _scale(_: JsonObject, action_input: ActionInput) -> ActionRequest:
    return ActionRequest("PATCH", {"spec": {"replicas": action_input.replicas}}, "scale")


def _delete(live: JsonObject, _: ActionInput) -> ActionRequest:
    conditions = {"preconditions": {"uid": live["metadata"]["uid"]}}
    options = {"apiVersion": "v1", "kind": "DeleteOptions", **conditions}
    return ActionRequest("DELETE", options)


def _run(live: JsonObject, action_input: ActionInput) -> ActionRequest:
    suffix = f"-manual-{action_input.suffix}"
    metadata, template = live["metadata"], _value_at(live, "spec", "jobTemplate") or {}
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "controller": True}
    annotations = _value_at(template, "metadata", "annotations") or {}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": metadata["name"][: _MAX_JOB_NAME - len(suffix)] + suffix,
            "namespace": metadata["namespace"],
            "labels": _value_at(template, "metadata", "labels") or {},
            "annotations": {**annotations, "cronjob.kubernetes.io/instantiate": "manual"},
            "ownerReferences": [{**owner, "name": metadata["name"], "uid": metadata["uid"]}],
        },
        "spec": template.get("spec", {}),
    }
    return ActionRequest("POST", job, creates="jobs")


def _promote(live: JsonObject, _: ActionInput) -> ActionRequest:
    """Continues a paused rollout, or skips its step, as kubectl-argo-rollouts does."""
    steps = len(_value_at(live, "spec", "strategy", "canary", "steps") or ())
    index = _value_at(live, "status", "currentStepIndex")
    status: JsonObject = {}
    if _value_at(live, "status", "pauseConditions"):
        status["pauseConditions"] = None
    elif index is not None and index < steps:
        status["currentStepIndex"] = index + 1
    # The version refuses a promotion of another step than the one that the user saw.
    version = {"resourceVersion": live["metadata"]["resourceVersion"]}
    return ActionRequest("PATCH", {"metadata": version, "status": status}, "status")


def _is_updating(live: JsonObject) -> bool:
    current = _value_at(live, "status", "currentPodHash")
    return current is not None and current != _value_at(live, "status", "stableRS")


def _is_aborted(live: JsonObject) -> bool:
    return _value_at(live, "status", "abort") is True


def _spec_action(
    id: str, title: str, kinds: tuple[str, ...], field: str, value: bool, consequence: str
) -> WorkloadAction:
    """Action that sets one field below `spec`."""
    body = {"spec": {field: value}}
    return WorkloadAction(
        *(id, title, kinds, "patch", consequence),
        lambda _, __: ActionRequest("PATCH", body),
        lambda live: bool(_value_at(live, "spec", field)) is not value,
    )


def _rollout_action(
    id: str,
    title: str,
    consequence: str,
    request: Callable[[JsonObject, ActionInput], ActionRequest],
    applies: Callable[[JsonObject], bool],
) -> WorkloadAction:
    """Action that sets fields of the status of an Argo rollout."""
    return WorkloadAction(
        *(id, title, _ROLLOUT, "patch", consequence, request, applies),
        subresource="status",
        sets_spec=False,
    )


def _status_patch(field: str, value: bool) -> Callable[[JsonObject, ActionInput], ActionRequest]:
    return lambda _, __: ActionRequest("PATCH", {"status": {field: value}}, "status")


WORKLOAD_ACTIONS = (
    WorkloadAction(
        *("restart", "Restart {}", (*_TEMPLATED, *_ROLLOUT), "patch"),
        "Replaces the Pods one after another, by the update strategy of the workload.",
        _restart,
    ),
    WorkloadAction(
        *("scale", "Scale {}"),
        ("apps/Deployment", "apps/StatefulSet", "apps/ReplicaSet", *_ROLLOUT),
        "patch",
        "Kubernetes creates or deletes Pods until their number is reached.",
        _scale,
        subresource="scale",
    ),
    _rollout_action(
        *("promote", "Promote {}", "Continues a paused rollout, or skips its current step."),
        *(_promote, _is_updating),
    ),
    _rollout_action(
        *("promote-fully", "Promote {} fully"),
        "Skips all remaining steps, pauses and analyses: all traffic goes to the new version.",
        *(_status_patch("promoteFull", value=True), _is_updating),
    ),
    _rollout_action(
        *("abort", "Abort {}"),
        "Stops the update: traffic goes back to the stable version. The definition in Git stays, "
        "and a retry starts the update again.",
        _status_patch("abort", value=True),
        lambda live: _is_updating(live) and not _is_aborted(live),
    ),
    _rollout_action(
        *("retry", "Retry {}", "Starts the aborted update again from its first step."),
        *(_status_patch("abort", value=False), _is_aborted),
    ),
    _spec_action(
        *("pause", "Pause {}", ("apps/Deployment", *_ROLLOUT), "paused", True),
        "New versions wait until the rollout continues. Running Pods stay.",
    ),
    _spec_action(
        *("unpause", "Continue {}", ("apps/Deployment", *_ROLLOUT), "paused", False),
        "Kubernetes rolls out the waiting version.",
    ),
    _spec_action(
        *("suspend", "Suspend {}", ("batch/CronJob",), "suspend", True),
        "No new Jobs start. Running Jobs stay.",
    ),
    _spec_action(
        *("resume", "Resume {}", ("batch/CronJob",), "suspend", False),
        "Jobs start again by their schedule.",
    ),
    _spec_action(
        *("suspend-job", "Suspend {}", ("batch/Job",), "suspend", True),
        "Kubernetes deletes the running Pods of the Job until it resumes.",
    ),
    _spec_action(
        *("resume-job", "Resume {}", ("batch/Job",), "suspend", False),
        "Kubernetes creates Pods for the rest of the Job.",
    ),
    WorkloadAction(
        *("run", "Run {} now", ("batch/CronJob",), "create"),
        "Creates a Job from the template of the CronJob. Its schedule stays.",
        _run,
        creates="jobs",
        sets_spec=False,
    ),
    WorkloadAction(
        *("delete", "Delete {}", ("/Pod",), "delete"),
        "Kubernetes ends the containers and deletes the Pod. Its owner creates another one.",
        _delete,
        sets_spec=False,
    ),
)
