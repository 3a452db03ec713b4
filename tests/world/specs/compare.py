"""Runs the specs against the API server and through the proxy, and compares their outcomes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.world.specs import suite
from tests.world.specs.suite import Outcome, Suite
from towline.demo.environment import DemoEnvironment

_CLUSTER = "world"
_PLANE = "TOWLINE_PROXY__DATA_PLANE"
_SYSTEM = {"TOWLINE_AGENT_KUBERNETES_SYSTEM_IDENTITIES": "user:system:*,group:system:*"}
_KUBECTL_PROXY = ("through kubectl proxy", "Kubectl client Proxy server")
"""Specs in which `kubectl proxy` drops the path of the server, as it does without its flag."""
_NODES = "[Feature:NodeAuthorizer]"
"""Specs that act as a node, which is a user of the system."""
_ROLE = """mutation ($patterns: [String!]!) {
  createRole(attributes: {name: "impersonator", rules: [{verbs: [], kinds: []}],
    kubernetes: {impersonate: $patterns}}) { id } }"""
_BIND = """mutation ($user: String!) { createRoleBinding(attributes: {
  role: "impersonator", scope: "installation", user: $user}) { id } }"""


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings with which the specs run through the proxy."""

    name: str
    variables: Mapping[str, str]
    forbids_system: bool
    """The agent refuses to impersonate users of the system, as by default."""


SETUPS = (
    Setup("native data plane", {_PLANE: "native"}, True),
    Setup("native data plane, system users allowed", {_PLANE: "native", **_SYSTEM}, False),
    Setup("portable data plane, system users allowed", {_PLANE: "portable", **_SYSTEM}, False),
)


@dataclass(frozen=True, slots=True)
class Run:
    """The specs that passed directly, and those of them that did not pass through the proxy."""

    setup: Setup
    specs: int
    differences: Mapping[str, str]

    @property
    def failed(self) -> bool:
        """Reports whether a spec differs that is not documented as refused."""
        return any(not self._is_known(spec) for spec in self.differences)

    def _is_known(self, spec: str) -> bool:
        acts_as_node = self.setup.forbids_system and _NODES in spec
        return acts_as_node or any(part in spec for part in _KUBECTL_PROXY)


def run(wanted: str = "") -> list[Run]:
    """Runs all specs whose name contains `wanted`, directly and with each of the `SETUPS`."""
    programs = suite.build()
    passed: set[str] = set()
    found = []
    for setup in SETUPS:
        with DemoEnvironment(_say, names=[_CLUSTER], variables=setup.variables) as environment:
            environment.start()
            if not passed:
                member = environment.members[_CLUSTER]
                direct = _run(programs, environment, member.access.kubeconfig, "direct")
                passed = {n for n, one in direct.items() if one.passed and wanted in n}
                _say(f"{len(passed)} of {len(direct)} specs pass directly")
            kubeconfig = _through(environment)
            different = _different(programs, environment, kubeconfig, "through", passed)
            if different:
                # Other load of the machine makes specs late; a difference has to come back.
                different = _different(programs, environment, kubeconfig, "again", different)
            found.append(Run(setup, len(passed), different))
            _say(f"{setup.name}: {len(different)} differ")
    return found


def table(runs: Iterable[Run]) -> str:
    """Returns the results as Markdown."""
    lines = ["| through the proxy | specs that pass directly | pass | differ |", "|---" * 4 + "|"]
    for one in runs:
        differences = "; ".join(f"{name}: {text[:300]}" for name, text in one.differences.items())
        same = one.specs - len(one.differences)
        lines.append(f"| {one.setup.name} | {one.specs} | {same} | {differences} |")
    return "\n".join(lines)


def _different(
    programs: Suite, environment: DemoEnvironment, kubeconfig: Path, name: str, only: Iterable[str]
) -> dict[str, str]:
    """Runs specs through the proxy; returns the reasons of those that do not pass."""
    found = _run(programs, environment, kubeconfig, name, only)
    outcomes = {spec: found.get(spec, Outcome("missing")) for spec in only}
    return {spec: one.reason or one.state for spec, one in outcomes.items() if not one.passed}


def _run(
    programs: Suite,
    environment: DemoEnvironment,
    kubeconfig: Path,
    name: str,
    only: Iterable[str] = (),
) -> dict[str, Outcome]:
    folder = environment.folder / f"specs-{name}"
    folder.mkdir()
    return programs.run(kubeconfig, environment.kubectl_program or "kubectl", folder, list(only))


def _through(environment: DemoEnvironment) -> Path:
    """Returns a kubeconfig of an administrator who may impersonate everybody."""
    email = environment.ask("{ me { email } }")["me"]["email"]
    environment.ask(_ROLE, patterns=["*", "user:system:*", "group:system:*", "serviceaccount:*"])
    environment.ask(_BIND, user=email)
    return environment.member_kubeconfig()


def _say(text: str) -> None:
    print(text, flush=True)
