"""Actions on objects in clusters: their requests, and the permissions that they need."""

import http.server
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import Conflict
from core.json_object import JsonObject
from tests.fakes.api import FakeApi
from towline.cli.cockpit.action_effects import effect_lines
from towline.cli.cockpit.source import ControlPlaneFleet
from towline.cli.cockpit.workload_actions import (
    WORKLOAD_ACTIONS,
    ActionInput,
    ActionRequest,
    WorkloadAction,
    actions_for,
    notes_of,
)
from towline.cli.services import generated as operations
from towline.contexts import ControlPlaneTarget

CONSOLE = Path(__file__).parents[3] / "console" / "src" / "workloads" / "actions.ts"
GIVEN = ActionInput("2026-01-01T00:00:00Z", "5f", 3)
ROOT = "/k8s/clusters/eu"
WITH_TEXT = ("edit", "delete-object")
"""Actions of the console alone: the cockpit has no field for a manifest or a typed name."""
CORE = {"kind": "APIGroupDiscoveryList", "items": []}
BATCH = {
    "items": [
        {
            "metadata": {"name": "batch"},
            "versions": [
                {
                    "version": "v1",
                    "resources": [
                        {
                            "resource": "cronjobs",
                            "responseKind": {"kind": "CronJob"},
                            "scope": "Namespaced",
                            "verbs": ["list"],
                        }
                    ],
                }
            ],
        }
    ]
}
CRON: JsonObject = {
    "kind": "CronJob",
    "metadata": {"name": "n" * 60, "namespace": "shop", "uid": "u1"},
    "spec": {
        "suspend": False,
        "jobTemplate": {
            "metadata": {"labels": {"app": "report"}, "annotations": {"a": "b"}},
            "spec": {"template": {}},
        },
    },
}
COMPONENT: Any = {"group": "batch", "kind": "CronJob", "namespace": "shop", "name": "n" * 60}


def action(id: str) -> WorkloadAction:
    return next(found for found in WORKLOAD_ACTIONS if found.id == id)


def rollout(**status: object) -> JsonObject:
    steps = {"strategy": {"canary": {"steps": [{}, {}]}}}
    return {
        **{"kind": "Rollout", "metadata": {"name": "web", "uid": "u", "resourceVersion": "9"}},
        **{"spec": steps, "status": {"currentPodHash": "new", "stableRS": "old", **status}},
    }


def test_the_cockpit_has_the_actions_of_the_console() -> None:
    ids = re.findall(
        r"""^ *(?:id: |(?:\.\.\.)?(?:setter|decision)\()"([a-z-]+)\"""", CONSOLE.read_text(), re.M
    )
    assert len(ids) > 10
    assert [*(found.id for found in WORKLOAD_ACTIONS), *WITH_TEXT] == ids


@pytest.mark.parametrize("found", WORKLOAD_ACTIONS, ids=lambda found: found.id)
def test_the_console_describes_each_action_in_the_same_words(found: WorkloadAction) -> None:
    assert f'"{found.consequence}"' in CONSOLE.read_text()


@pytest.mark.parametrize(
    ("live", "body"),
    [
        (
            {"kind": "Deployment"},
            {
                "template": {
                    "metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": GIVEN.now}}
                }
            },
        ),
        ({"kind": "Rollout"}, {"restartAt": GIVEN.now}),
    ],
)
def test_a_restart_sets_the_time(live: JsonObject, body: JsonObject) -> None:
    assert action("restart").request(live, GIVEN).body == {"spec": body}


def test_a_promotion_continues_or_skips_a_step_of_the_seen_version() -> None:
    promote = action("promote")
    paused = promote.request(rollout(pauseConditions=[{}], currentStepIndex=0), GIVEN)
    assert paused.body == {
        "metadata": {"resourceVersion": "9"},
        "status": {"pauseConditions": None},
    }
    assert paused.subresource == "status"
    waiting = promote.request(rollout(currentStepIndex=1), GIVEN)
    assert waiting.body["status"] == {"currentStepIndex": 2}
    assert promote.request(rollout(currentStepIndex=2), GIVEN).body["status"] == {}
    assert promote.request(rollout(), GIVEN).body["status"] == {}
    blue_green = {**rollout(currentStepIndex=0), "spec": {"strategy": {"blueGreen": {}}}}
    assert promote.request(blue_green, GIVEN).body["status"] == {}


@pytest.mark.parametrize(
    ("status", "ids"),
    [
        ({}, ["restart", "scale", "promote", "promote-fully", "abort", "pause"]),
        ({"abort": True}, ["restart", "scale", "promote", "promote-fully", "retry", "pause"]),
        ({"stableRS": "new"}, ["restart", "scale", "pause"]),
        ({"currentPodHash": None}, ["restart", "scale", "pause"]),
    ],
)
def test_actions_fit_the_state_of_a_rollout(status: JsonObject, ids: list[str]) -> None:
    fitting = [
        found.id
        for found in WORKLOAD_ACTIONS
        if "argoproj.io/Rollout" in found.kinds and found.applies(rollout(**status))
    ]
    assert fitting == ids


def test_a_pod_is_deleted_only_if_it_is_the_seen_one() -> None:
    pod: JsonObject = {"kind": "Pod", "metadata": {"name": "web-1", "uid": "u1"}}
    request = action("delete").request(pod, GIVEN)
    assert (request.method, request.body["preconditions"]) == ("DELETE", {"uid": "u1"})
    assert "No controller owns this Pod" in notes_of(action("delete"), pod)[-1]
    owned = {"metadata": {"ownerReferences": [{"controller": True}]}}
    assert notes_of(action("delete"), owned) == [action("delete").consequence]


def test_a_job_of_a_cron_job_is_made_of_its_template() -> None:
    """As `kubectl create job --from` makes it, with its owner; a template may have no metadata."""
    job = action("run").request(CRON, GIVEN).body
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "controller": True}
    assert job == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{'n' * 53}-manual-5f",
            "namespace": "shop",
            "labels": {"app": "report"},
            "annotations": {"a": "b", "cronjob.kubernetes.io/instantiate": "manual"},
            "ownerReferences": [{**owner, "name": "n" * 60, "uid": "u1"}],
        },
        "spec": {"template": {}},
    }
    for spec in ({"jobTemplate": {"spec": {}}}, {}):
        bare = action("run").request({**CRON, "spec": spec}, GIVEN).body
        assert bare["metadata"]["labels"] == {} and bare["spec"] == {}
        assert bare["metadata"]["annotations"] == {"cronjob.kubernetes.io/instantiate": "manual"}


def test_a_change_of_a_field_that_git_can_set_says_so() -> None:
    """The decision about a rollout is no such field; only a Pod is missed by its controller."""
    heals = "If Git sets the changed field, self-heal can revert the change."
    lone: JsonObject = {"metadata": {}}
    scale, abort = action("scale"), action("abort")
    assert notes_of(scale, lone) == [scale.consequence, heals]
    assert notes_of(abort, lone) == [abort.consequence]


def test_a_kind_of_the_core_group_has_its_actions_without_a_group() -> None:
    for group in (None, ""):
        found = actions_for({"group": group, "kind": "Pod"})
        assert [offered.id for offered in found] == ["delete"]


class FakeApiServer(http.server.BaseHTTPRequestHandler):
    """A cluster with one CronJob, behind the Kubernetes proxy; may only patch it."""

    requests: list[tuple[str, str, str, Any]]

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        found = {f"{ROOT}/api": CORE, f"{ROOT}/apis": BATCH}
        self._answer(200, found.get(self.path, CRON))

    def do_POST(self) -> None:
        body = self._body()
        allowed = body.get("spec", {}).get("resourceAttributes", {}).get("verb") == "patch"
        if self.path.endswith("/jobs"):
            self._answer(409, {"message": "jobs.batch already exists"})
        elif self.path.endswith("/jobs?dryRun=All"):
            self._answer(201, body)
        else:
            self._answer(201, {"status": {"allowed": allowed}})

    def do_PATCH(self) -> None:
        spec = {**CRON["spec"], **self._body()["spec"]}
        noise = {**CRON["metadata"], "resourceVersion": "2", "generation": 2}
        self._answer(200, {**CRON, "metadata": noise, "spec": spec})

    def _body(self) -> Any:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = (self.command, self.path, self.headers["Content-Type"], body)
        self.requests.append(asked)
        return body

    def _answer(self, code: int, document: JsonObject) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def cluster() -> Iterator[tuple[ControlPlaneFleet, type[FakeApiServer]]]:
    class Handler(FakeApiServer):
        requests = []

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        target = ControlPlaneTarget(f"http://127.0.0.1:{server.server_port}", "a-token")
        yield ControlPlaneFleet(FakeApi(), target), Handler
        server.shutdown()
        thread.join()


def test_the_api_server_says_which_actions_a_user_may_run(
    cluster: tuple[ControlPlaneFleet, type[FakeApiServer]],
) -> None:
    fleet, server = cluster
    state = fleet.object_state("eu", COMPONENT)
    assert [(offered.action.id, offered.denial_reason) for offered in state.offered] == [
        ("suspend", ""),
        ("run", "you need the permission create jobs in shop"),
    ]
    attributes = [body["spec"]["resourceAttributes"] for *_, body in server.requests]
    assert [(each["resource"], each["name"]) for each in attributes] == [
        ("cronjobs", "n" * 60),
        ("jobs", ""),
    ]


def test_an_action_is_one_request_to_the_api_server(
    cluster: tuple[ControlPlaneFleet, type[FakeApiServer]],
) -> None:
    fleet, server = cluster
    state = fleet.object_state("eu", COMPONENT)
    server.requests.clear()
    fleet.run_action("eu", state, action("suspend"), 0)
    with pytest.raises(Conflict, match=r"jobs\.batch already exists"):
        fleet.run_action("eu", state, action("run"), 0)
    (patch, path, kind, body), (post, jobs, _, job) = server.requests
    namespace = f"{ROOT}/apis/batch/v1/namespaces/shop"
    assert (patch, path) == ("PATCH", f"{namespace}/cronjobs/{'n' * 60}")
    assert (kind, body) == ("application/merge-patch+json", {"spec": {"suspend": True}})
    assert (post, jobs) == ("POST", f"{namespace}/jobs")
    assert re.fullmatch(r"n{47}-manual-[0-9a-f]{8}", job["metadata"]["name"])
    assert len(job["metadata"]["name"]) == 63
    assert job["metadata"]["ownerReferences"][0]["uid"] == "u1"
    assert job["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"] == "manual"
    assert job["spec"] == {"template": {}}


def test_the_effect_of_an_action_is_a_dry_run_of_the_api_server(
    cluster: tuple[ControlPlaneFleet, type[FakeApiServer]],
) -> None:
    fleet, server = cluster
    state = fleet.object_state("eu", COMPONENT)
    server.requests.clear()
    assert fleet.action_effect("eu", state, action("suspend"), 0) == ["spec.suspend: false → true"]
    assert fleet.action_effect("eu", state, action("resume"), 0) == ["No field changes."]
    (created,) = fleet.action_effect("eu", state, action("run"), 0)
    assert re.fullmatch(r"\+ Job n{47}-manual-[0-9a-f]{8}", created)
    assert len(server.requests) == 3
    assert all(path.endswith("?dryRun=All") for _, path, *_ in server.requests)


def test_an_effect_names_fields_that_come_and_go() -> None:
    managed = [{"manager": "a", "operation": "Apply"}, {"manager": "b"}]
    before: JsonObject = {
        "metadata": {"resourceVersion": "1", "managedFields": managed[:1]},
        "spec": {"paused": True, "a": [1], "containers": [{"name": "web", "image": "a"}]},
    }
    after: JsonObject = {
        "metadata": {"resourceVersion": "2", "managedFields": managed},
        "spec": {
            "a": [1, 2],
            "b\x1b": {"c": "d"},
            "containers": [{"name": "log", "image": "l"}, {"name": "web", "image": "b"}],
        },
    }
    assert effect_lines(ActionRequest("PATCH", {}), {}, before, after) == [
        "spec.a[1]: (none) → 2",
        'spec.b\\u001b: (none) → {"c": "d"}',
        'spec.containers[log]: (none) → {"name": "log", "image": "l"}',
        'spec.containers[web].image: "a" → "b"',
        "spec.paused: true → (none)",
    ]
    pod: JsonObject = {"kind": "Pod", "metadata": {"name": "web-1"}}
    assert effect_lines(ActionRequest("DELETE", {}), pod, {}, {}) == ["- Pod web-1"]


@pytest.mark.parametrize(
    ("git", "found"),
    [
        ({"ref": "main", "folder": ""}, ["1 added, 0 removed, 0 changed", "+ ConfigMap shop/a"]),
        (None, []),
    ],
)
def test_the_effect_of_a_sync_is_the_newest_commit_and_what_differs(
    git: JsonObject | None, found: list[str]
) -> None:
    drifted = {"kind": "Deployment", "namespace": "shop", "name": "web", "synced": False}
    service = {"git": git, "components": [drifted, {**drifted, "synced": True}]}
    added = {"change": "ADDED", "kind": "ConfigMap", "namespace": "shop", "name": "a"}
    difference = {
        **{"added": 1, "removed": 0, "changed": 0, "sha": None},
        "objects": [{**added, "fields": [], "more": 0}],
    }
    api = FakeApi(
        {
            operations.SERVICE: {"serviceDeployment": service},
            operations.SERVICE_DIFF: {"serviceDiff": difference},
        }
    )
    fleet = ControlPlaneFleet(api, ControlPlaneTarget("http://127.0.0.1:1", "x"))
    drift = ["~ Deployment/shop/web differs from Git"]
    assert fleet.sync_effect("s1") == [*found, *drift]
    assert [each["ref"] for each in api.sent(operations.SERVICE_DIFF)] == ["main"] * bool(git)
    drifted["synced"] = True
    assert fleet.sync_effect("s1") == (found or ["No object differs from Git."])
    assert fleet.revision_effect("s1", "sha256:1") == [
        "1 added, 0 removed, 0 changed",
        "+ ConfigMap shop/a",
    ]
    assert api.sent(operations.SERVICE_DIFF)[-1]["newDigest"] == "sha256:1"
