"""Steps of the demo: each performs a user's action, and verifies its effect on the clusters."""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from core.errors import TowlineError, Unavailable
from core.json_object import JsonObject
from towline.demo.environment import DemoEnvironment, PrintProgress, wait_until
from towline.demo.sample import shop

NAMESPACE = "shop"
_SERVICE = """query ($id: ID!) { serviceDeployment(id: $id)
  { status sha errors { source message } components { kind name state } } }"""
_PIPELINE = """{ pipeline(name: "shop") { id
  edges { release { id } reason digests { serviceId sha digest } gates { id state reason } }
  stages { name health release { id } } } }"""


class StepFailed(Exception):
    """A step failed; the message names it."""


@dataclass(slots=True)
class DemoSteps:
    """Runs the steps in order on a started demo."""

    stage: DemoEnvironment
    say: PrintProgress
    services: dict[str, str]

    @classmethod
    def begin(cls, stage: DemoEnvironment, say: PrintProgress) -> "DemoSteps":
        """Creates repository, services and pipeline."""
        sha = stage.repository.commit(shop("1.0"), "Open the shop")
        say(f"sample repository at {stage.repository.url}, commit {sha[:8]}")
        repository = stage.ask(
            "mutation ($url: String!) { createGitRepository(attributes: {url: $url}) { id } }",
            url=stage.repository.url,
        )["createGitRepository"]["id"]
        services = {
            name: _create_service(stage, member.id, repository, name)
            for name, member in stage.members.items()
        }
        attributes = {
            "stages": [
                {"name": name, "services": [{"serviceId": id}]} for name, id in services.items()
            ],
            "edges": [
                {"from": "dev", "to": "prod", "gates": [{"name": "sign-off", "type": "APPROVAL"}]}
            ],
        }
        stage.ask(
            "mutation ($attributes: PipelineAttributes!) "
            '{ savePipeline(name: "shop", attributes: $attributes) { id } }',
            attributes=attributes,
        )
        return cls(stage, say, services)

    def play(self) -> None:
        """Runs all steps. Raises StepFailed for the first failure."""
        steps: tuple[tuple[str, Callable[[], None]], ...] = (
            ("a commit is deployed to dev and becomes healthy", self.commit_reaches_dev),
            ("prod waits for an approval, then deploys", self.approval_reaches_prod),
            ("a manual edit of a managed object is healed", self.edit_is_healed),
            ("drift is healed while the control plane is down", self.heals_alone),
            ("a commit made in the meantime is deployed after a restart", self.change_arrives_late),
            ("kubectl through the proxy acts as the user", self.kubectl_works),
            ("deleting a service prunes its objects", self.deletion_prunes),
        )
        for number, (name, step) in enumerate(steps, 1):
            start = time.monotonic()
            try:
                step()
            except TowlineError as error:
                raise StepFailed(f"step {number}, {name}: {error.message}") from error
            self.say(f"✓ {number}/{len(steps)} {name} ({time.monotonic() - start:.1f} s)")

    def commit_reaches_dev(self) -> None:
        self.wait_healthy("dev")
        deployment = self.live_object("dev", "deployment", "web")
        image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
        _expect(image.endswith("shop:1.0"), f"dev runs {image}")

    def approval_reaches_prod(self) -> None:
        edge = self.waiting_edge()
        absent = self.stage.members["prod"].kubectl("get", "deploy", "-A", "-o", "name")
        _expect("deployment.apps/web" not in absent, "prod was deployed without an approval")
        self.approve(edge)
        self.wait_healthy("prod")
        replicas = self.live_object("prod", "deployment", "web")["status"].get("readyReplicas")
        _expect(replicas == 2, f"prod has {replicas} ready replicas, not 2")

    def edit_is_healed(self) -> None:
        self.scale("dev", 5)
        self.wait_replicas("dev", 1)

    def heals_alone(self) -> None:
        self.stage.kill_control_plane()
        self.scale("dev", 4)
        self.wait_replicas("dev", 1)
        member = self.stage.members["dev"]
        member.kubectl("delete", "service", "web", "-n", NAMESPACE)
        wait_until(
            "the deleted Service comes back", lambda: bool(self.live_object("dev", "svc", "web"))
        )

    def change_arrives_late(self) -> None:
        self.stage.repository.commit(shop("1.1"), "Release 1.1")
        self.stage.start_control_plane()

        def arrived() -> bool:
            settings = self.live_object("dev", "configmap", "settings")
            return settings["data"]["version"] == "1.1"

        wait_until("version 1.1 in dev", arrived, 60)
        self.wait_healthy("dev")

    def kubectl_works(self) -> None:
        config = self.stage.member_kubeconfig()

        def kubectl(*args: str, stdin: str | None = None) -> str:
            program = self.stage.kubectl_program or "kubectl"
            command = [program, f"--kubeconfig={config}", "--context=towline-dev", *args]
            result = subprocess.run(
                command, input=stdin, capture_output=True, text=True, timeout=30, check=False
            )
            if result.returncode:
                raise Unavailable(f"kubectl {' '.join(args)}: {result.stderr.strip()}")
            return result.stdout

        wait_until("kubectl through the proxy", lambda: bool(kubectl("version")))
        user_info = json.loads(kubectl("auth", "whoami", "-o", "json"))["status"]["userInfo"]
        _expect(user_info["username"] == "admin", f"the cluster sees {user_info['username']}")
        _expect("towline:admins" in user_info["groups"], f"the groups are {user_info['groups']}")
        pod = kubectl("get", "pods", "-n", NAMESPACE, "-o", "name").split()[0]
        echoed = kubectl("exec", "-i", "-n", NAMESPACE, pod, "--", "cat", stdin="hello\n")
        _expect(echoed == "hello\n", f"exec printed {echoed!r}")

    def deletion_prunes(self) -> None:
        self.stage.ask(
            "mutation ($id: ID!) { deleteServiceDeployment(id: $id) { id } }",
            id=self.services["dev"],
        )
        member = self.stage.members["dev"]

        def is_gone() -> bool:
            kinds = "deployments,services,configmaps"
            names = member.kubectl("get", kinds, "-n", NAMESPACE, "-o", "name").split()
            return not [name for name in names if "kube-root-ca.crt" not in name]

        wait_until("dev's objects are gone", is_gone)

    def service(self, name: str) -> JsonObject:
        """Fetches a service from the API."""
        return self.stage.ask(_SERVICE, id=self.services[name])["serviceDeployment"]

    def pipeline(self) -> JsonObject:
        """Fetches the pipeline from the API."""
        return self.stage.ask(_PIPELINE)["pipeline"]

    def waiting_edge(self, sha: str = "") -> JsonObject:
        """Waits until a release, that of this commit if given, needs approval for prod; returns the
        edge.
        """
        edge: JsonObject = {}

        def is_waiting() -> bool:
            edge.update(self.pipeline()["edges"][0])
            is_gate_running = edge["gates"][0]["state"] == "RUNNING"
            return is_gate_running and any(sha in ("", digest["sha"]) for digest in edge["digests"])

        wait_until("a release waits for prod", is_waiting)
        return edge

    def approve(self, edge: JsonObject) -> None:
        """Approves the digests of the waiting release."""
        self.stage.ask(
            "mutation ($id: ID!, $digests: [DigestAttributes!]) "
            "{ approveGate(id: $id, digests: $digests) { id } }",
            id=edge["gates"][0]["id"],
            digests=[{n: digest[n] for n in ("serviceId", "digest")} for digest in edge["digests"]],
        )

    def wait_healthy(self, name: str) -> None:
        """Waits until a service is healthy; raises its errors if it fails."""

        def is_healthy() -> bool:
            now = self.service(name)
            if now["status"] == "FAILED" and now["errors"]:
                raise Unavailable("; ".join(error["message"] for error in now["errors"]))
            return now["status"] == "HEALTHY"

        wait_until(f"{name} is healthy", is_healthy, 60)

    def live_object(self, name: str, kind: str, object_name: str) -> JsonObject:
        """Reads a live object from the cluster."""
        member = self.stage.members[name]
        return json.loads(member.kubectl("get", kind, object_name, "-n", NAMESPACE, "-o", "json"))

    def scale(self, name: str, replicas: int) -> None:
        """Changes the replicas of a managed object by hand."""
        self.stage.members[name].kubectl(
            "scale", "deployment/web", "-n", NAMESPACE, f"--replicas={replicas}"
        )

    def wait_replicas(self, name: str, replicas: int) -> None:
        """Waits until drift of the replicas is healed."""
        wait_until(
            f"{name} is back at {replicas} replicas",
            lambda: self.live_object(name, "deployment", "web")["spec"]["replicas"] == replicas,
        )


def _create_service(stage: DemoEnvironment, cluster: str, repository: str, name: str) -> str:
    attributes = {
        "name": "shop",
        "namespace": NAMESPACE,
        "repositoryId": repository,
        "git": {"ref": "main", "folder": name},
        "promoted": name == "prod",
    }
    return stage.ask(
        "mutation ($cluster: ID!, $attributes: ServiceDeploymentAttributes!) "
        "{ createServiceDeployment(clusterId: $cluster, attributes: $attributes) { id } }",
        cluster=cluster,
        attributes=attributes,
    )["createServiceDeployment"]["id"]


def _expect(condition: bool, message: str) -> None:
    if not condition:
        raise Unavailable(message)
