"""What people and programs do with clusters, done through the proxy and past it: no difference."""

import asyncio
import hashlib
import json
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from syncagent.tunnel.upstream import Upstream
from tests.fakes.kube_proxy import CLUSTER
from tests.integration.proxy.conftest import POD, Kubectl, Result, proxied_kubectl, stop
from tests.integration.proxy.stack import Stack, eventually
from towline.demo.clusters.cluster import LocalCluster

MEBIBYTE = 1 << 20
AT_ONCE = 6
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: b}\n"
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "web:1"}]}
"""
INVALID = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: UPPER_case}\n"
EDITOR = {"KUBE_EDITOR": "sed -i s/before$/after/"}


@dataclass(frozen=True)
class Step:
    """One command line; `env` and what it reads."""

    args: str
    stdin: str = ""
    env: Mapping[str, str] | None = None


STORIES: dict[str, list[Step]] = {
    "edit": [
        Step("apply -f -", CONFIG.replace("b}", "before}")),
        Step("edit configmap m", env=EDITOR),
        Step("get configmap m -o jsonpath={.data}"),
    ],
    "diff": [
        Step("apply -f -", CONFIG),
        Step("diff -f -", CONFIG),
        Step("diff -f -", CONFIG.replace("b}", "c}")),
    ],
    "patch": [
        Step("create configmap m --from-literal=a=b"),
        Step('patch configmap m --type=merge -p {"data":{"a":"c"}}'),
        Step('patch configmap m --type=json -p [{"op":"remove","path":"/data/a"}]'),
        Step('patch configmap m --type=json -p [{"op":"remove","path":"/data/a"}]'),
        Step("label configmap m x=y"),
        Step("annotate configmap m x=y"),
        Step("replace -f -", CONFIG),
        Step("delete configmap m"),
        Step("delete configmap m"),
    ],
    "dry run": [
        Step("apply --dry-run=server -f -", CONFIG),
        Step("apply --server-side --dry-run=server -f -", CONFIG),
        Step("apply --dry-run=server -f -", INVALID),
        Step("apply --server-side -f -", CONFIG.replace("data:", "dta:")),
        Step("get configmap m"),
    ],
    "rollout": [
        Step("apply -f -", DEPLOYMENT),
        Step("rollout status deployment/web --timeout=30s"),
        Step("wait --for=condition=Available deployment/web --timeout=30s"),
        Step("scale deployment/web --replicas=2"),
        Step("rollout restart deployment/web"),
        Step("rollout history deployment/web"),
        Step("rollout undo deployment/web --to-revision=99"),
        Step("autoscale deployment/web --max=3"),
        Step("set image deployment/web main=web:2"),
        Step("delete deployment web"),
    ],
    "waiting in vain": [
        Step("create configmap m"),
        Step("wait --for=condition=Ready configmap/m --timeout=1s"),
        Step("wait --for=delete configmap/none --timeout=1s"),
    ],
    "tables": [
        Step("create configmap m --from-literal=a=b"),
        Step("get configmaps,secrets -o wide --no-headers -o custom-columns=N:.metadata.name"),
        Step("get pods"),
        Step("get nothing"),
        Step("get pods --field-selector=no=such"),
        Step("describe configmap m"),
        Step("api-versions"),
        Step("explain deployment.spec.strategy --recursive"),
        Step("get --raw /readyz?verbose"),
        Step("get --raw /no/such/path"),
        Step("auth can-i --list --no-headers"),
        Step("cluster-info dump --output-directory=/dev/null"),
    ],
    "absent APIs": [Step("top pods"), Step("top nodes"), Step("get --raw /apis/metrics.k8s.io")],
    "nodes": [
        Step("drain kwok-none --dry-run=server"),
        Step("cordon kwok-none"),
        Step("taint nodes kwok-none a=b:NoSchedule --dry-run=server"),
    ],
    "debug": [
        Step("apply -f -", POD),
        Step("wait --for=condition=Ready pod/box --timeout=30s"),
        Step("debug box --image=debug:1 -c dbg --target=main --attach=false -- sleep 1"),
        Step("get pod box -o jsonpath={.spec.ephemeralContainers[*].name}"),
        Step("logs box -c none"),
        Step("exec box -- sh -c exit\\ 7"),
        Step("attach box -c none"),
        Step("delete pod box --grace-period=0 --force"),
    ],
    "as others": [
        Step("get pods --as=bob"),
        Step("auth whoami --as=bob --as-group=qa --as-uid=7 -o json"),
        Step("create configmap m --as=bob --as-group=devs"),
    ],
}
VARYING = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*( \+0000)?"), "TIME"),
    (re.compile(r"(LIVE|MERGED)-\d+"), r"\1"),
    (re.compile(r"(resourceVersion:? ?\"?)\d+"), r"\1N"),
    (re.compile(r"(?m)^Waiting for .*\n?"), ""),
    (re.compile(r"index [0-9a-f.]+ "), ""),
    (re.compile(r"(web|kubectl-edit)-[0-9a-z]+(-[0-9a-z]+)?"), r"\1"),
    (re.compile(r"[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ "), "LOG "),
    (re.compile(r"https://127\.0\.0\.1:\d+(/k8s/clusters/\w+)?"), "SERVER"),
    (re.compile(r"127\.0\.0\.1:\d+"), "SERVER"),
    (re.compile(r"\(\d+\.\d+s\)|\d+(ms|s) ago|AGE|\b\d+m?s\b"), "SPAN"),
)


@pytest.fixture
async def root(
    stack: Stack, upstream: Upstream, kubectl_program: Path, tmp_path: Path
) -> AsyncIterator[Kubectl]:
    """kubectl through the proxy as somebody who may act as others, who is in the group devs."""
    stack.installation.impersonation["ann"] = stack.installation.impersonation["root"]
    await stack.connect(upstream)
    yield proxied_kubectl(stack, kubectl_program, tmp_path / "root.kubeconfig")


def plain(text: str, namespace: str) -> str:
    """Output without what differs between two runs of the same command."""
    text = text.replace(namespace, "NAMESPACE")
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return text


async def tell(kubectl: Kubectl, story: list[Step], namespace: str) -> list[tuple[str, ...]]:
    """What each step of a story left behind: its exit code, and what it printed."""
    steps = []
    for step in story:
        args = [one.replace("\\ ", " ") for one in re.split(r"(?<!\\) ", step.args)]
        done: Result = await kubectl(
            *args, f"--namespace={namespace}", stdin=step.stdin.encode(), env=step.env
        )
        out = "\n".join(sorted(done.out.decode(errors="replace").splitlines()))
        steps.append((step.args, str(done.code), plain(out, namespace), plain(done.err, namespace)))
    return steps


# The namespaces of the run before may still terminate.
_RUNS = count(1)


async def test_every_story_ends_alike(root: Kubectl, direct: Kubectl) -> None:
    """Exit codes, output and errors of kubectl's verbs are those of a direct run."""
    turns, run = asyncio.Semaphore(AT_ONCE), next(_RUNS)

    async def play(name: str, kubectl: Kubectl, side: str) -> list[tuple[str, ...]]:
        namespace = f"conf{run}-{side}-{name.replace(' ', '-').lower()}"
        async with turns:
            await direct("create", "namespace", namespace)
            await eventually_account(direct, namespace)
            try:
                return await tell(kubectl, STORIES[name], namespace)
            finally:
                await direct("delete", "namespace", namespace, "--wait=false")

    names = list(STORIES)
    both = await asyncio.gather(
        *(play(name, root, "a") for name in names), *(play(name, direct, "b") for name in names)
    )
    through, past = both[: len(names)], both[len(names) :]
    differences = [
        (name, one, other)
        for name, seen, expected in zip(names, through, past, strict=True)
        for one, other in zip(as_one(seen), as_one(expected), strict=True)
        if one != other
    ]
    assert differences == []


async def eventually_account(direct: Kubectl, namespace: str) -> None:
    """Pods need the account that a controller makes."""
    words = ("--for=create", "serviceaccount/default", "-n", namespace, "--timeout=20s")
    assert (await direct("wait", *words)).code == 0


def as_one(steps: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Steps whose order in time is not given print the same lines."""
    return [
        (args, code, out, "\n".join(sorted(err.splitlines()))) for args, code, out, err in steps
    ]


@pytest.fixture
async def sides(
    stack: Stack, upstream: Upstream, cluster: LocalCluster
) -> AsyncIterator[tuple["Side", "Side"]]:
    """Plain HTTP clients: through the proxy, and past it as the same user."""
    await stack.connect(upstream)
    token = await upstream.token()
    async with aiohttp.ClientSession(auto_decompress=False) as http:
        proxy = Side(http, f"http://127.0.0.1:{stack.plain_port}/k8s/clusters/dev", "ann-token", {})
        fields = {"Impersonate-User": "ann", "Impersonate-Group": "devs"}
        yield proxy, Side(http, cluster.server, token, fields, upstream.tls and upstream.tls())


@dataclass
class Side:
    """One way to the API server."""

    http: aiohttp.ClientSession
    url: str
    token: str
    fields: dict[str, str]
    tls: Any = False

    async def get(self, path: str, **fields: str) -> tuple[int, str, bytes]:
        """Status, media type and body."""
        async with self._ask(path, fields) as answer:
            return answer.status, answer.headers.get("Content-Type", ""), await answer.read()

    async def first_list(self, path: str) -> list[tuple[str, str]]:
        """Types and names of a watch's events up to its first bookmark."""
        found: list[tuple[str, str]] = []
        async with self._ask(path, {}) as answer:
            async for line in answer.content:
                event = json.loads(line)
                if event["type"] == "BOOKMARK":
                    return sorted(found)
                found.append((event["type"], event["object"]["metadata"]["name"]))
        raise AssertionError(f"no bookmark after {len(found)} events")

    def _ask(
        self, path: str, fields: dict[str, str]
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers = {"Accept-Encoding": "identity", **self.fields, **fields}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return self.http.get(self.url + path, headers=headers, ssl=self.tls)


async def test_big_lists_are_whole(
    sides: tuple[Side, Side], direct: Kubectl, namespace: str, cluster: LocalCluster
) -> None:
    """50 MB, plain and compressed, in JSON, as a table and in protobuf: the same bytes."""
    proxy, past = sides
    await asyncio.gather(*(fill(past, namespace, number) for number in range(50)))
    path = await as_of_now(past, f"/api/v1/namespaces/{namespace}/configmaps")
    for fields in (
        {},
        {"Accept-Encoding": "gzip"},
        {"Accept": "application/vnd.kubernetes.protobuf"},
        {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"},
    ):
        seen, expected = await asyncio.gather(proxy.get(path, **fields), past.get(path, **fields))
        assert digest(seen) == digest(expected), fields
        if not fields:
            assert len(seen[2]) > 48 * MEBIBYTE


async def as_of_now(side: Side, path: str) -> str:
    """A list's path with its version, which others' writes would count on between two requests."""
    _, _, body = await side.get(f"{path}?limit=1")
    version = json.loads(body)["metadata"]["resourceVersion"]
    return f"{path}?resourceVersion={version}&resourceVersionMatch=Exact"


async def fill(side: Side, namespace: str, number: int) -> None:
    body = {
        "metadata": {"name": f"big-{number}", "annotations": {}},
        "data": {"a": "x" * (MEBIBYTE - 4096)},
    }
    headers = {"Authorization": f"Bearer {side.token}", **side.fields}
    url = f"{side.url}/api/v1/namespaces/{namespace}/configmaps"
    async with side.http.post(url, json=body, headers=headers, ssl=side.tls) as answer:
        assert answer.status == 201, await answer.text()


def digest(answer: tuple[int, str, bytes]) -> tuple[int, str, int, str]:
    status, kind, body = answer
    return status, kind, len(body), hashlib.sha256(body).hexdigest()


ODD = (
    "/api/v1/namespaces/default/pods/none/proxy/a//b/%2F/c?x=%20",
    "/api/v1/namespaces/default/services/https:none:443/proxy/",
    "/api/v1/nodes/none/proxy/healthz",
    "/api/v1/namespaces/default/pods?watch=1&resourceVersion=1&timeoutSeconds=1",
    "/api/v1/namespaces/default/pods?limit=1&continue=expired",
    "/api/v1/watch/namespaces/default/configmaps?timeoutSeconds=1&resourceVersion=0",
    "/apis/apps/v1/namespaces/default/deployments?labelSelector=a%20in%20(b,c)",
    "/openapi/v3",
    "/version?",
    "/api/v1/namespaces/default/pods/",
)


async def test_odd_paths_answer_alike(sides: tuple[Side, Side]) -> None:
    """Proxied paths, old revisions (410), deprecated watches, odd queries."""
    proxy, past = sides
    accept = {"Accept": "application/json"}
    seen = await asyncio.gather(*(proxy.get(path, **accept) for path in ODD))
    expected = await asyncio.gather(*(past.get(path, **accept) for path in ODD))
    for path, one, other in zip(ODD, seen, expected, strict=True):
        assert (one[0], one[1], settled(one[2])) == (other[0], other[1], settled(other[2])), path


def settled(body: bytes) -> str:
    """A body without the revision that goes on while one looks."""
    return re.sub(r'("?resourceVersion"?: ?"?)\d+', r"\1N", body.decode(errors="replace"))


async def test_watch_lists_and_bookmarks_arrive(
    sides: tuple[Side, Side], direct: Kubectl, namespace: str
) -> None:
    """A list by watch (`sendInitialEvents`) ends in its bookmark, as past the proxy."""
    proxy, past = sides
    for number in range(20):
        await direct("create", "configmap", f"m{number}", "-n", namespace)
    path = (
        f"/api/v1/namespaces/{namespace}/configmaps?watch=1&sendInitialEvents=true"
        "&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=60"
    )
    seen, expected = await asyncio.gather(proxy.first_list(path), past.first_list(path))
    assert seen == expected
    assert len(seen) >= 20


async def test_kubectl_proxy_through_the_proxy(root: Kubectl, sides: tuple[Side, Side]) -> None:
    """A local proxy of kubectl's own serves what the proxy serves."""
    proxy = await root.start("proxy", "--port=0", "--append-server-path")
    assert proxy.stdout is not None
    async with asyncio.timeout(20):
        line = (await proxy.stdout.readline()).decode()
    _, past = sides
    local = Side(past.http, f"http://{line.split()[-1]}", "", {})
    try:
        for path in ("/version", "/api/v1/namespaces/default", "/apis/apps/v1"):
            assert settled((await local.get(path))[2]) == settled((await past.get(path))[2])
    finally:
        await stop(proxy)


HELM = """
import sys, json
from helm_python import Chart, Config
kubeconfig, namespace, folder = sys.argv[1:]
with Config(kubeconfig_path=kubeconfig, namespace=namespace) as config:
    seen = []
    def note(one): seen.append([one.get(key) for key in ("name", "namespace", "version", "status")])
    note(config.install(folder, "shop"))
    note(config.upgrade(folder, "shop", values={"color": "red"}))
    seen.append(config.get_values("shop"))
    config.rollback("shop", version=1)
    for one in config.history("shop"): note(one)
    config.uninstall("shop")
    seen.append(len(config.list()))
print(json.dumps(seen))
"""


async def test_helm_goes_through_the_kubeconfig(
    root: Kubectl, direct: Kubectl, namespace: str, tmp_path: Path
) -> None:
    """Install, upgrade, roll back, list and uninstall with Helm's own engine."""
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: shop\nversion: 0.1.0\n")
    (chart / "values.yaml").write_text("color: blue\n")
    template = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {c: {{ .Values.color }}}\n"
    )
    (chart / "templates" / "m.yaml").write_text(template)
    outputs = []
    for kubectl in (root, direct):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HELM, str(kubectl.kubeconfig), namespace, str(chart),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        outputs.append(json.loads(out.splitlines()[-1]))
    assert outputs[0] == outputs[1]
    assert outputs[0][0][:2] == ["shop", namespace]
    assert outputs[0][2] == {"color": "red"}
    assert outputs[0][-1] == 0


INFORMER = """
import sys, threading
from kubernetes import client, config
from kubernetes.informer import SharedInformer
kubeconfig, namespace = sys.argv[1:]
config.load_kube_config(kubeconfig)
api = client.CoreV1Api()
informer = SharedInformer(api.list_namespaced_config_map, namespace=namespace)
for kind in ("ADDED", "DELETED"):
    informer.add_event_handler(
        kind, lambda one, kind=kind: print(kind, one.metadata.name, flush=True)
    )
informer.start()
print("STARTED", flush=True)
sys.stdin.readline()
informer.stop()
"""


async def test_an_informer_survives_agents_that_come_and_go(
    stack: Stack, upstream: Upstream, root: Kubectl, direct: Kubectl, namespace: str
) -> None:
    """No event is lost or repeated while the agent is replaced again and again."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", INFORMER, str(root.kubeconfig), namespace,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL, env={"HOME": "/", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert process.stdout is not None and process.stdin is not None
    seen: list[str] = []

    async def read() -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            seen.append(line.decode().strip())

    reading = stack.tasks.spawn("informer", read())
    await eventually(lambda: "STARTED" in seen, 20)
    expected = set()
    for number in range(6):
        if number % 2:
            stack.proxy.tunnels.stop()
            await direct("create", "configmap", f"m{number}", "-n", namespace)
            await eventually(lambda: not stack.proxy.tunnels.is_connected(CLUSTER), 5)
            await stack.connect(upstream)
        else:
            await direct("create", "configmap", f"m{number}", "-n", namespace)
        expected.add(f"ADDED m{number}")
    await eventually(lambda: expected <= set(seen), 30)
    added = [one for one in seen if one.startswith("ADDED m")]
    assert len(added) == len(set(added)) == 6
    process.stdin.write(b"\n")
    process.kill()
    await process.wait()
    await reading
