"""Runs each client against the API server and through the proxy, and compares their results."""

import json
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.errors import Unavailable
from tests.world.clients import k9s
from tests.world.clients.programs import Program, command_lines, libraries, terminal
from tests.world.controllers.argo_cd import ArgoCd
from tests.world.controllers.delivery import DeliveryController
from tests.world.controllers.flux import Flux
from towline.demo.environment import DemoCluster, DemoEnvironment, wait_until

_CLUSTER = "world"
_SECONDS = 180
_POD = """{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "box"},
 "spec": {"containers": [{"name": "main", "image": "box:1"}]}}"""
_CHART = {
    "Chart.yaml": "apiVersion: v2\nname: small\nversion: 1.0.0\n",
    "templates/map.yaml": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n"
        'data: {v: "{{ .Values.v }}", has: "{{ .Capabilities.APIVersions.Has "apps/v1" }}"}\n'
    ),
    "values.yaml": "v: 1\n",
}
_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, labels: {set: x}}\ndata: {k: v}\n"
_NAME = "-o=jsonpath={.metadata.name}"
_KUBECTL: Mapping[str, tuple[str, ...]] = {
    "server version": ("get", "--raw", "/version"),
    "API resources": ("api-resources", "-o=name"),
    "explain": ("explain", "deployment.spec"),
    "name with a colon": ("get", "clusterrole", "system:node", _NAME),
    "apply": ("apply", "-f", "-"),
    "server-side apply": ("apply", "--server-side", "--force-conflicts", "-f", "-"),
    "diff": ("diff", "-f", "-"),
    "patch": ("patch", "configmap", "m", "--type=json", "-p", '[{"op":"remove","path":"/data"}]'),
    "label": ("label", "configmap", "m", "a=b"),
    "wait": ("wait", "pod/box", "--for=condition=Ready", "--timeout=20s"),
    "exec": ("exec", "-i", "box", "--", "cat"),
    "logs": ("logs", "box", "--tail=1"),
    "can I": ("auth", "can-i", "delete", "nodes"),
    "pages": ("get", "clusterroles", "--chunk-size=20", "-o=name"),
    "table": ("get", "configmap", "m", "--no-headers", "-o=custom-columns=A:.metadata.name"),
    "delete": ("delete", "configmap", "m"),
    "missing": ("get", "configmap", "gone"),
}
_HELM: Mapping[str, tuple[str, ...]] = {
    "install": ("install", "small", "{chart}", "--wait", "--timeout=60s"),
    "get manifest": ("get", "manifest", "small"),
    "upgrade": ("upgrade", "small", "{chart}", "--set", "v=2"),
    "history": ("history", "small", "-o=json"),
    "rollback": ("rollback", "small", "1"),
    "status": ("status", "small", "-o=json"),
    "list": ("list", "-q"),
    "lookup of capabilities": ("template", "{chart}", "--validate"),
    "uninstall": ("uninstall", "small"),
}

Results = Mapping[str, object]
Run = Callable[[Path, str], Results]


@dataclass(frozen=True, slots=True)
class Row:
    """The operations of a client, and those whose result differs through the proxy."""

    client: str
    operations: int
    differences: Mapping[str, str]
    failed: Mapping[str, str]
    """Operations that fail directly as well, which prove nothing."""


def run_matrix(wanted: str = "") -> list[Row]:
    """Runs all clients whose name contains `wanted`."""
    with DemoEnvironment(_say, names=[_CLUSTER]) as environment:
        environment.start()
        member = environment.members[_CLUSTER]
        chart = environment.folder / "chart"
        for path, text in _CHART.items():
            (chart / path).parent.mkdir(parents=True, exist_ok=True)
            (chart / path).write_text(text)
        through = environment.member_kubeconfig()
        kubectl = [environment.kubectl_program or "kubectl", f"--kubeconfig={through}"]
        _text([*kubectl, "config", "use-context", f"towline-{_CLUSTER}"])
        wait_until("the proxy", lambda: _text([*kubectl, "version"])[0] == 0, 60)
        rows = []
        for program, run in (*_runs(chart), *_deliveries(member)):
            if wanted.lower() in program.name.lower():
                rows.append(_row(program, run, member.kubectl, member.access.kubeconfig, through))
                _say(f"{program.name}: {len(rows[-1].differences)} differences")
        return rows


def table(rows: Iterable[Row]) -> str:
    """Returns the results as Markdown."""
    lines = ["| client | operations | same through the proxy | different | fail directly |"]
    lines.append("|---" * 5 + "|")
    for row in rows:
        same = row.operations - len(row.differences) - len(row.failed)
        differences = "; ".join(f"{name}: {text}" for name, text in row.differences.items())
        failed = "; ".join(f"{name}: {text[:80]}" for name, text in row.failed.items())
        lines.append(f"| {row.client} | {row.operations} | {same} | {differences} | {failed} |")
    return "\n".join(lines)


def compare(direct: Results, through: Results) -> dict[str, str]:
    """Returns the operations whose results differ."""
    return {
        name: f"{through.get(name)!r:.80}, directly {direct.get(name)!r:.80}"
        for name in direct.keys() | through.keys()
        if direct.get(name) != through.get(name)
    }


def _runs(chart: Path) -> Iterable[tuple[Program, Callable[[Sequence[str | Path]], Run]]]:
    for program in libraries():
        yield program, _library
    yield terminal(), k9s.operations
    for program in command_lines():
        is_helm = program.name.startswith("helm")
        given = _HELM if is_helm else _KUBECTL
        verbs = {
            name: [
                argument.format(chart=chart) if "{chart}" in argument else argument
                for argument in verb
            ]
            for name, verb in given.items()
        }
        yield program, lambda command, verbs=verbs: _command_line(command, verbs)


def _deliveries(
    member: DemoCluster,
) -> Iterable[tuple[Program, Callable[[Sequence[str | Path]], Run]]]:
    for controller in (Flux(), ArgoCd()):

        def run(command: Sequence[str | Path], one: DeliveryController = controller) -> Run:
            return one.run(Path(command[0]), member.access, member.kubectl)

        yield Program(controller.name, lambda one=controller: [one.install()]), run


def _row(
    program: Program,
    run: Callable[[Sequence[str | Path]], Run],
    admin: Callable[..., str],
    direct: Path,
    through: Path,
) -> Row:
    try:
        command = program.install()
    except Unavailable as error:
        return Row(program.name, 0, {}, {error.message: ""})
    results = []
    for number, kubeconfig in enumerate((direct, through)):
        namespace = "".join(c for c in program.name.lower() if c.isalnum()) + f"-{number}"
        admin("create", "namespace", namespace)
        _wait_for_account(admin, namespace)
        admin("create", "-n", namespace, "-f", "-", stdin=_POD)
        admin("wait", "-n", namespace, "pod/box", "--for=condition=Ready", "--timeout=30s")
        found = run(command)(kubeconfig, namespace)
        results.append(json.loads(json.dumps(found).replace(namespace, "NAMESPACE")))
    failed = {name: str(text) for name, text in results[0].items() if _is_failure(name, text)}
    different = compare(*results)
    return Row(
        program.name, len(results[0]), different, {n: failed[n] for n in failed.keys() - different}
    )


def _is_failure(name: str, result: object) -> bool:
    text = str(result)
    return name != "missing" and ("rror" in text[:40] or text.startswith("exit 1"))


def _wait_for_account(admin: Callable[..., str], namespace: str) -> None:
    account = ("get", "serviceaccount", "default", "-n", namespace, "-o", "name")
    wait_until(f"the account of {namespace}", lambda: bool(admin(*account)), 30)


def _library(command: Sequence[str | Path]) -> Run:
    def run(kubeconfig: Path, namespace: str) -> Results:
        code, output, errors = _text([*command, str(kubeconfig), namespace])
        return json.loads(output) if not code else {"program": f"Error: {errors[-200:]}"}

    return run


def _command_line(command: Sequence[str | Path], verbs: Mapping[str, Sequence[str]]) -> Run:
    def run(kubeconfig: Path, namespace: str) -> Results:
        found = {}
        for name, verb in verbs.items():
            asked = [*command, f"--kubeconfig={kubeconfig}", f"--namespace={namespace}", *verb]
            code, output, errors = _text(asked, _MAP)
            found[name] = f"exit {code}: {_steady(output)} {_steady(errors)}"
        return found

    return run


def _steady(text: str) -> str:
    """Returns an output without lines that differ from run to run."""
    changing = (
        "LAST DEPLOYED",
        "updated",
        "WARNING",
        "resourceVersion",
        "uid",
        "---",
        "+++",
        "diff ",
    )
    lines = [line for line in text.splitlines() if not any(mark in line for mark in changing)]
    return "\n".join(lines)


def _text(command: Sequence[str | Path], stdin: str = "") -> tuple[int, str, str]:
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    return done.returncode, done.stdout, done.stderr


def _say(text: str) -> None:
    print(text, flush=True)
