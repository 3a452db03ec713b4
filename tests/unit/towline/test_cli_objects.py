"""Objects of many clusters: answers in time, partial results, kinds and quantities."""

import http.server
import threading
from typing import Any

import pytest
import typer

from core.errors import NotFound, Unavailable
from core.json_object import JsonObject
from towline.cli.objects.exec import pod_of
from towline.cli.objects.fan_out import FleetAnswers, ask_all
from towline.cli.objects.get import report_problems
from towline.cli.objects.top import quantity
from towline.contexts import ControlPlaneTarget
from towline.kube_api import Kind, KubeApi, find_kind_in

APPS: JsonObject = {
    "metadata": {"name": "apps"},
    "versions": [
        {
            "version": "v1",
            "resources": [
                {
                    "resource": "deployments",
                    "singularResource": "deployment",
                    "shortNames": ["deploy"],
                    "responseKind": {"kind": "Deployment"},
                    "scope": "Namespaced",
                    "verbs": ["get", "list"],
                }
            ],
        }
    ],
}


def test_clusters_answer_in_the_order_of_their_names_and_mute_ones_are_named() -> None:
    """One answers late, one never, one refuses; 40 wait for one of 32 threads."""
    release = threading.Event()

    def ask(handle: str) -> str:
        if handle == "mute":
            release.wait(30)
        if handle == "away":
            raise Unavailable("not connected")
        return f"pods of {handle}"

    many = [f"c{number}" for number in range(40)]
    answers = ask_all(["mute", "b", "away", *many], ask, 0.5)
    release.set()
    assert list(answers.found) == ["b", *many]
    problems = {handle: error.message for handle, error in answers.problems.items()}
    assert problems == {"mute": "no answer within 0.5 s", "away": "not connected"}


def test_a_defect_of_an_answer_is_no_silence() -> None:
    def ask(handle: str) -> str:
        raise KeyError("items")

    assert "items" in ask_all(["a"], ask, 5).problems["a"].message


def test_a_partial_result_is_said_and_has_its_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit) as ended:
        report_problems(FleetAnswers({"a": 1}, {"b": Unavailable("not connected")}))
    assert ended.value.exit_code == 8
    assert capsys.readouterr().err == "partial: 1 of 2 clusters answered\n  b: not connected\n"
    report_problems(FleetAnswers({"a": 1}, {}))
    with pytest.raises(NotFound, match="no kind"):
        report_problems(FleetAnswers({}, {"alone": NotFound("no kind")}))


@pytest.mark.parametrize("word", ["deployments", "deployment", "deploy", "deployments.apps"])
def test_a_kind_has_all_its_names(word: str) -> None:
    found = find_kind_in(APPS, word)
    assert found == Kind("/apis/apps/v1", "deployments", True, "Deployment")
    assert found.path("a/b") == "/apis/apps/v1/namespaces/a%2Fb/deployments"
    assert found.path(None) == "/apis/apps/v1/deployments"
    assert find_kind_in(APPS, "pods") is None


@pytest.mark.parametrize(
    ("text", "value"), [("250m", 0.25), ("3", 3), ("1500000n", 0.0015), ("2Ki", 2048), ("x", 0)]
)
def test_quantities_are_read(text: str, value: float) -> None:
    assert quantity(text) == pytest.approx(value)


def test_a_healthy_pod_is_chosen() -> None:
    def pod(name: str, state: str) -> Any:
        return {"group": "", "kind": "Pod", "name": name, "namespace": "shop", "state": state}

    pods = [pod("a", "FAILED"), pod("b", "RUNNING")]
    assert pod_of("dev/web", pods, None)["name"] == "b"
    assert pod_of("dev/web", pods, "a")["name"] == "a"
    with pytest.raises(NotFound, match="dev/web has no pod c"):
        pod_of("dev/web", pods, "c")


class _Down(http.server.BaseHTTPRequestHandler):
    """API server whose aggregated API does not answer."""

    def do_GET(self) -> None:
        self.send_error(503)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def test_an_api_that_does_not_answer_is_named_with_its_cluster() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), _Down) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        target = ControlPlaneTarget(f"http://127.0.0.1:{server.server_port}", "a-token")
        with pytest.raises(Unavailable, match="cluster eu answers 503 Service Unavailable"):
            KubeApi(target, "eu", 5).get("/apis/metrics.k8s.io/v1beta1/pods")
