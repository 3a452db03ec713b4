"""Runs the specs against the API server and through the proxy, and compares their outcomes."""

import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import partial
from pathlib import Path

from tests.world.specs import suite
from tests.world.specs.results import Outcome, Results, run_rest
from tests.world.specs.suite import Access, Suite
from towline.demo.environment import DemoEnvironment

_CLUSTER = "world"
_PLANE = "TOWLINE_PROXY__DATA_PLANE"
_DOMAIN = "clusters.localhost"
_HOSTS = {"TOWLINE_PROXY__CLUSTER_DOMAIN": _DOMAIN}
_SYSTEM = {"TOWLINE_AGENT_KUBERNETES_SYSTEM_IDENTITIES": "user:system:*,group:system:*"}
_NODES = "[Feature:NodeAuthorizer]"
"""Specs that act as a node, which is a user of the system."""
_RESULTS = "TOWLINE_WORLD_RESULTS"
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


class Way(StrEnum):
    """Where specs find the API server."""

    THROUGH = "through the proxy"
    DIRECT = "directly"


class Attempt(Enum):
    """How specs run: name, number of processes, and by how much their deadlines are longer."""

    TOGETHER = ("together", 6, 1.0)
    PATIENT = ("with more time", 6, 2.0)
    ALONE = ("alone", 1, 2.0)
    SECOND = ("alone, second time", 1, 2.0)
    THIRD = ("alone, third time", 1, 2.0)


Runner = Callable[[Way, Collection[str], Attempt], Mapping[str, Outcome]]
"""Runs specs; returns their outcomes by name."""


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
    """Runs all specs, or those that match `wanted`, with each of the `SETUPS`.

    TOWLINE_WORLD_RESULTS names a file for the outcomes; specs that have one there do not run again.
    """
    given = os.environ.get(_RESULTS)
    with tempfile.TemporaryDirectory(prefix="towline-specs-") as folder:
        results = Results(Path(given).resolve() if given else Path(folder) / "results.jsonl")
        programs = suite.build()
        runs: list[Run] = []
        for setup in SETUPS:
            if not runs:
                patterns = [wanted] if wanted else suite.FOCUS
                chosen = [programs.names(pattern) for pattern in patterns]
            else:
                chosen = [sorted(runs[-1].differences if setup.repeats else runs[0].passed)]
            runs.append(run_setup(setup, programs, results, chosen))
        return runs


def run_setup(
    setup: Setup, programs: Suite, results: Results, chosen: Iterable[Collection[str]]
) -> Run:
    """Runs specs with a setup, each element of `chosen` on its own."""
    result = Run(setup)
    groups = [group for group in chosen if group]
    if not groups:
        return result
    variables = {**_HOSTS, **setup.variables}
    with DemoEnvironment(_say, names=[_CLUSTER], variables=variables) as environment:
        environment.start()
        hosts = environment.folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost {_CLUSTER}.{_DOMAIN}\n")
        kubectl = environment.kubectl_program or "kubectl"
        direct = environment.members[_CLUSTER].access.kubeconfig
        kubeconfigs = {Way.THROUGH: _through(environment), Way.DIRECT: direct}

        def run_specs(way: Way, specs: Collection[str], attempt: Attempt) -> Mapping[str, Outcome]:
            access = Access(kubeconfigs[way], kubectl, hosts)
            name, processes, patience = attempt.value
            key = f"{setup.name}, {way}, {name}" if way is Way.THROUGH else f"{way}, {name}"
            _say(f"{key}: {len(specs)} specs")
            start = partial(programs.run, access, results, key, patience)
            return run_rest(start, results, key, specs, processes)

        for specs in groups:
            compare(run_specs, specs, result)
            _say(table([result]))
    return result


def compare(run_specs: Runner, specs: Collection[str], into: Run) -> None:
    """Runs specs through the proxy, and directly those that fail.

    One that passes through the proxy is no difference, whatever it does directly. Other specs and
    other load make specs late, so those that fail have more time directly, and those that pass
    directly run alone through the proxy. Chance decides some, so a difference has to come back.
    """
    found = run_specs(Way.THROUGH, specs, Attempt.TOGETHER)
    found = {name: one for name, one in found.items() if one.state != "skipped"}
    failed = {name for name, one in found.items() if not one.passed}
    directly = _failed(run_specs, Way.DIRECT, failed, Attempt.PATIENT)
    differ = _failed(run_specs, Way.THROUGH, failed - directly.keys(), Attempt.ALONE)
    for attempt in (Attempt.SECOND, Attempt.THIRD):
        directly |= _failed(run_specs, Way.DIRECT, differ, attempt)
        differ = _failed(run_specs, Way.THROUGH, differ.keys() - directly.keys(), attempt)
    into.passed |= found.keys() - directly.keys() - differ.keys()
    into.failed_directly |= directly.keys()
    into.differences |= {name: one.reason or one.state for name, one in differ.items()}


def _failed(
    run_specs: Runner, way: Way, specs: Collection[str], attempt: Attempt
) -> dict[str, Outcome]:
    found = run_specs(way, specs, attempt) if specs else {}
    return {name: one for name, one in found.items() if not one.passed}


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
