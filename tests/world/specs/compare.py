"""Runs the specs against the API server and through the proxy, and compares their outcomes."""

import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.world.specs import suite
from tests.world.specs.suite import Outcome
from towline.demo.environment import DemoEnvironment

_CLUSTER = "world"
_PLANE = "TOWLINE_PROXY__DATA_PLANE"
_DOMAIN = "clusters.localhost"
_HOSTS = {"TOWLINE_PROXY__CLUSTER_DOMAIN": _DOMAIN}
_SYSTEM = {"TOWLINE_AGENT_KUBERNETES_SYSTEM_IDENTITIES": "user:system:*,group:system:*"}
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
    repeats: bool = False
    """Runs those specs only that differ in the setup before."""


SETUPS = (
    Setup("native data plane", {_PLANE: "native"}, True),
    Setup("native, system users allowed", {_PLANE: "native", **_SYSTEM}, False, repeats=True),
    Setup("portable, system users allowed", {_PLANE: "portable", **_SYSTEM}, False),
)


Specs = str | Collection[str]
"""A pattern, or names of specs."""
Runner = Callable[[Path, Specs, int], Mapping[str, Outcome]]
"""Runs specs with a kubeconfig in some processes; returns their outcomes by name."""
_PROCESSES = 6
"""Specs mostly wait."""


@dataclass(slots=True)
class Run:
    """The outcomes of specs through the proxy."""

    setup: Setup
    passed: set[str] = field(default_factory=set)
    failed_directly: set[str] = field(default_factory=set)
    """Specs that fail directly as well, which prove nothing."""
    differences: dict[str, str] = field(default_factory=dict)
    """Reasons of specs that pass directly, and not through the proxy."""

    @property
    def failed(self) -> bool:
        """Reports whether a spec differs that is not documented as refused."""
        return any(not self._is_known(spec) for spec in self.differences)

    def _is_known(self, spec: str) -> bool:
        return self.setup.forbids_system and _NODES in spec


def run(wanted: str = "") -> list[Run]:
    """Runs all specs, or those that match `wanted`, with each of the `SETUPS`."""
    runs: list[Run] = []
    for setup in SETUPS:
        chosen: Sequence[Specs] = [wanted] if wanted else suite.FOCUS
        if runs:
            chosen = [runs[-1].differences if setup.repeats else runs[0].passed]
        runs.append(run_setup(setup, [specs for specs in chosen if specs]))
    return runs


def run_setup(setup: Setup, chosen: Sequence[Specs]) -> Run:
    """Runs specs with a setup, each element of `chosen` on its own."""
    result = Run(setup)
    if not chosen:
        return result
    programs = suite.build()
    variables = {**_HOSTS, **setup.variables}
    with DemoEnvironment(_say, names=[_CLUSTER], variables=variables) as environment:
        environment.start()
        through = _through(environment)
        direct = environment.members[_CLUSTER].access.kubeconfig
        kubectl = environment.kubectl_program or "kubectl"

        def run_specs(kubeconfig: Path, specs: Specs, processes: int) -> Mapping[str, Outcome]:
            folder = Path(tempfile.mkdtemp(prefix="specs-", dir=environment.folder))
            hosts = folder / "hosts"
            hosts.write_text(f"127.0.0.1 localhost {_CLUSTER}.{_DOMAIN}\n")
            return programs.run(kubeconfig, kubectl, folder, hosts, specs, processes)

        for specs in chosen:
            compare(run_specs, through, direct, specs, result)
            _say(table([result]))
    return result


def compare(run_specs: Runner, through: Path, direct: Path, specs: Specs, into: Run) -> None:
    """Runs specs through the proxy, and directly those that fail.

    One that passes through the proxy is no difference, whatever it does directly.
    """
    found = run_specs(through, specs, _PROCESSES)
    failed = {name for name, one in found.items() if not one.passed}
    directly = run_specs(direct, failed, _PROCESSES) if failed else {}
    late = {name for name in failed if name in directly and directly[name].passed}
    # Other specs and other load make specs late; a difference has to come back without others.
    again = run_specs(through, late, 1) if late else {}
    differ = {name: again.get(name, found[name]) for name in late}
    differ = {name: one.reason or one.state for name, one in differ.items() if not one.passed}
    into.passed |= found.keys() - failed | late - differ.keys()
    into.failed_directly |= failed - late
    into.differences |= differ


def table(runs: Iterable[Run]) -> str:
    """Returns the results as Markdown."""
    lines = ["| setup | pass through the proxy | fail directly as well | differ |"]
    lines.append("|---" * 4 + "|")
    for one in runs:
        differences = "; ".join(f"{name}: {text[:300]}" for name, text in one.differences.items())
        counts = f"{len(one.passed)} | {len(one.failed_directly)}"
        lines.append(f"| {one.setup.name} | {counts} | {differences or 0} |")
    return "\n".join(lines)


def _through(environment: DemoEnvironment) -> Path:
    """Returns a kubeconfig of an administrator who may impersonate everybody."""
    email = environment.ask("{ me { email } }")["me"]["email"]
    environment.ask(_ROLE, patterns=["*", "user:system:*", "group:system:*", "serviceaccount:*"])
    environment.ask(_BIND, user=email)
    return environment.member_kubeconfig()


def _say(text: str) -> None:
    print(text, flush=True)
