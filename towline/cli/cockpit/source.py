"""Reads and changes the fleet for the cockpit, by the control plane's API."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple, Protocol
from urllib.parse import quote

from core.json_object import JsonObject
from core.runtime.now import utc_now
from towline.cli.cockpit.action_effects import effect_lines
from towline.cli.cockpit.workload_actions import (
    ActionInput,
    ActionRequest,
    WorkloadAction,
    actions_for,
)
from towline.cli.lazy_import import load
from towline.cli.services import generated as operations
from towline.cli.services.generated import (
    ChangedService,
    Revision,
    ServiceDetails,
    ServiceEvent,
    ServiceRow,
)
from towline.cli.services.object_names import ObjectName, kind_word, name_of
from towline.cli.services.service_diff import lines
from towline.contexts import ControlPlaneTarget, FilePath
from towline.kube_api import Kind, KubeApi
from towline.operations import LARGE_PAGE, GraphQLApi, pages
from towline.subscription import Subscription

_READ_SECONDS = 15.0
_FOLLOW_SECONDS = 24 * 3600.0
_TAIL_LINES = "500"
_MAX_OBJECTS = "1000"
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class OfferedAction(NamedTuple):
    """An action that applies to an object."""

    action: WorkloadAction
    denial_reason: str
    """Reason why the user may not run it. Empty if allowed."""


class TableRow(NamedTuple):
    """An object in a table, with a text for each column."""

    name: ObjectName
    cells: Sequence[str]


class ObjectTable(NamedTuple):
    """Objects of a kind, in the columns of the API server."""

    columns: Sequence[str]
    rows: Sequence[TableRow]
    left_out: int
    """Number of further objects."""


class ObjectState(NamedTuple):
    """An object of a cluster, and the actions that fit its state.

    `list_path` is the path of its list in the API of the cluster.
    """

    live: JsonObject
    list_path: str
    offered: Sequence[OfferedAction]


class FleetSource(Protocol):
    """The fleet as the signed-in user may see it. All methods block, and raise TowlineError."""

    def services(self) -> Iterator[ServiceRow]:
        """Yields all services."""
        ...

    def changes(self, since: str | None) -> Iterator[Sequence[ChangedService]]:
        """Yields changes from now on, or since `at` of an earlier one.

        The first item is empty, as soon as changes are followed; others can be.
        """
        ...

    def service(self, id: str) -> ServiceDetails: ...

    def events(self, id: str) -> list[ServiceEvent]: ...

    def objects(self, handle: str, kind: str, namespace: str) -> ObjectTable:
        """Reads objects of a kind, of all namespaces if `namespace` is empty.

        `kind` is a word as for kubectl, such as `pods` or `deploy`. NotFound: the cluster has no
        such kind.
        """
        ...

    def manifest(self, handle: str, component: ObjectName) -> str:
        """Reads an object of a cluster as YAML."""
        ...

    def log(self, handle: str, namespace: str, pod: str) -> Iterator[str]:
        """Yields the last lines of a pod's log, and new ones until the pod ends."""
        ...

    def kubectl(self, handle: str, words: Sequence[str]) -> int:
        """Runs kubectl on this terminal, and returns its exit code."""
        ...

    def object_state(self, handle: str, component: ObjectName) -> ObjectState:
        """Reads an object of a cluster, and the actions that fit it."""
        ...

    def run_action(
        self, handle: str, state: ObjectState, action: WorkloadAction, replicas: int
    ) -> None:
        """Runs an action on an object; `replicas` is the number that a user scales to."""
        ...

    def action_effect(
        self, handle: str, state: ObjectState, action: WorkloadAction, replicas: int
    ) -> list[str]:
        """Runs an action as a dry run of the API server, and describes the changes."""
        ...

    def sync(self, id: str) -> None: ...

    def sync_effect(self, id: str) -> list[str]:
        """Describes the changes of the newest commit, and the objects that differ from Git."""
        ...

    def previous(self, id: str) -> Revision | None:
        """The revision before the present one of a service."""
        ...

    def roll_back(self, id: str, revision_id: str) -> None: ...

    def revision_effect(self, id: str, digest: str) -> list[str]:
        """Describes the changes of an earlier revision of a service."""
        ...

    def unpin(self, id: str) -> None: ...

    def page(self, id: str) -> str:
        """URL of the service's page in the console."""
        ...


class ControlPlaneFleet:
    """The fleet of a control plane."""

    def __init__(
        self, api: GraphQLApi, target: ControlPlaneTarget, config: FilePath | None = None
    ) -> None:
        """`config`: the configuration file with the token, if a flag names it."""
        self._api = api
        self._target = target
        self._config = config

    def services(self) -> Iterator[ServiceRow]:
        return pages(self._api, operations.SERVICE_ROWS, LARGE_PAGE)

    def changes(self, since: str | None) -> Iterator[Sequence[ChangedService]]:
        with closing(
            Subscription(self._target, operations.CHANGED_SERVICE, since=since)
        ) as subscription:
            yield []
            while True:
                changes = subscription.changes(_READ_SECONDS)
                yield [change for data in changes for change in data.values()]

    def service(self, id: str) -> ServiceDetails:
        return operations.service(self._api, id=id)

    def events(self, id: str) -> list[ServiceEvent]:
        events = operations.service_events(self._api, id)
        return sorted(events, key=lambda event: event["lastAt"] or "", reverse=True)

    def objects(self, handle: str, kind: str, namespace: str) -> ObjectTable:
        api = KubeApi(self._target, handle, _READ_SECONDS)
        resource = api.kind(kind)
        return _table(resource, api.table(resource.path(namespace), limit=_MAX_OBJECTS))

    def manifest(self, handle: str, component: ObjectName) -> str:
        api = KubeApi(self._target, handle, _READ_SECONDS)
        path = _kind(api, component).path(component["namespace"])
        manifest = api.get(f"{path}/{quote(component['name'], safe='')}")
        return load("yaml").safe_dump(_without_noise(manifest), sort_keys=False, allow_unicode=True)

    def log(self, handle: str, namespace: str, pod: str) -> Iterator[str]:
        api = KubeApi(self._target, handle, _FOLLOW_SECONDS)
        return api.log(namespace, pod, tailLines=_TAIL_LINES, follow="true")

    def kubectl(self, handle: str, words: Sequence[str]) -> int:
        execute = load("towline.cli.objects.exec")
        program = execute.find_kubectl()
        return execute.run_kubectl(program, self._target, self._config, handle, words)

    def object_state(self, handle: str, component: ObjectName) -> ObjectState:
        api = KubeApi(self._target, handle, _READ_SECONDS)
        kind = _kind(api, component)
        path = kind.path(component["namespace"])
        live = api.get(f"{path}/{quote(component['name'], safe='')}")
        applicable = [action for action in actions_for(component) if action.applies(live)]
        offered = [
            OfferedAction(action, _denial_reason(api, component, kind, action))
            for action in applicable
        ]
        return ObjectState(live, path, offered)

    def run_action(
        self, handle: str, state: ObjectState, action: WorkloadAction, replicas: int
    ) -> None:
        request, path = _request_of(state, action, replicas)
        KubeApi(self._target, handle, _READ_SECONDS).send(request.method, path, request.body)

    def action_effect(
        self, handle: str, state: ObjectState, action: WorkloadAction, replicas: int
    ) -> list[str]:
        api = KubeApi(self._target, handle, _READ_SECONDS)
        request, path = _request_of(state, action, replicas)
        # Only scale is a resource of its own: a status is part of its object.
        before = api.get(path.removesuffix("/status")) if request.method == "PATCH" else {}
        after = api.send(request.method, path, request.body, dryRun="All")
        return effect_lines(request, state.live, before, after)

    def sync(self, id: str) -> None:
        operations.sync_service(self._api, id)

    def sync_effect(self, id: str) -> list[str]:
        service = operations.service(self._api, id=id)
        differing = [
            f"~ {name_of(component)} differs from Git"
            for component in service["components"]
            if not component["synced"]
        ]
        if service["git"] is None:
            return differing or ["No object differs from Git."]
        ref = service["git"]["ref"]
        return [*lines(operations.service_diff(self._api, id, ref=ref)), *differing]

    def previous(self, id: str) -> Revision | None:
        present = operations.service(self._api, id=id)["revision"]
        revisions = operations.revisions(self._api, id)
        for revision in revisions:
            if present is None or revision["id"] == present["id"]:
                break
        return next(revisions, None)

    def roll_back(self, id: str, revision_id: str) -> None:
        operations.roll_back_service(self._api, id, revision_id)

    def revision_effect(self, id: str, digest: str) -> list[str]:
        return list(lines(operations.service_diff(self._api, id, new_digest=digest)))

    def unpin(self, id: str) -> None:
        operations.unpin_service(self._api, id)

    def page(self, id: str) -> str:
        return f"{self._target.url}/services/{id}"


def _table(kind: Kind, page: JsonObject) -> ObjectTable:
    columns = [
        (index, column["name"])
        for index, column in enumerate(page["columnDefinitions"])
        if not column.get("priority")
    ]
    rows = [
        TableRow(
            _object_name(kind, row["object"]["metadata"]),
            tuple(str(row["cells"][index]) for index, _ in columns),
        )
        for row in page["rows"] or ()
    ]
    left_out = page["metadata"].get("remainingItemCount", 0)
    return ObjectTable(tuple(name for _, name in columns), rows, left_out)


def _object_name(kind: Kind, metadata: JsonObject) -> ObjectName:
    return {
        "group": kind.group,
        "kind": kind.name,
        "namespace": metadata.get("namespace"),
        "name": metadata["name"],
    }


def _kind(api: KubeApi, component: ObjectName) -> Kind:
    return api.kind(kind_word(component))


def _request_of(
    state: ObjectState, action: WorkloadAction, replicas: int
) -> tuple[ActionRequest, str]:
    """Request of an action, and its path in the API of the cluster."""
    now = utc_now()
    action_input = ActionInput(f"{now:%Y-%m-%dT%H:%M:%SZ}", f"{int(now.timestamp()):x}", replicas)
    request = action.request(state.live, action_input)
    name = quote(state.live["metadata"]["name"], safe="")
    parts = (state.list_path, name, request.subresource)
    if request.creates:
        parts = (state.list_path.rpartition("/")[0], request.creates)
    return request, "/".join(filter(None, parts))


def _denial_reason(api: KubeApi, component: ObjectName, kind: Kind, action: WorkloadAction) -> str:
    """Asks the API server whether the user may run an action; returns the missing permission."""
    resource = action.creates or kind.plural
    attributes = {
        "verb": action.verb,
        "group": component["group"] or "",
        "resource": resource,
        "subresource": action.subresource,
        "namespace": component["namespace"] or "",
        "name": "" if action.creates else component["name"],
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    if api.send("POST", _ACCESS_REVIEWS, review).get("status", {}).get("allowed") is True:
        return ""
    target = "/".join(filter(None, (resource, action.subresource)))
    return f"you need the permission {action.verb} {target} in {component['namespace']}"


def _without_noise(manifest: JsonObject) -> JsonObject:
    """Leaves out the managed fields, and the data and annotations of Secrets."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "managedFields"}
    cleaned = {**manifest, "metadata": metadata}
    if manifest.get("kind") == "Secret":
        # The annotation of `kubectl apply` repeats the data.
        metadata.pop("annotations", None)
        for field in ("data", "stringData"):
            if field in cleaned:
                cleaned[field] = dict.fromkeys(cleaned[field], "(hidden)")
    return cleaned
