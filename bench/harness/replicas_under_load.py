"""Measures three replicas under load, with shared PostgreSQL and Redis."""

import asyncio
import itertools
import random
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp

from bench.harness.cpu_accounting import cpu_seconds_by_role
from bench.report import BenchReport
from core.json_object import JsonObject
from tests.integration.replicas.fleet import Fleet as Replicas
from tests.integration.replicas.fleet import Replica
from tests.servers.postgres import Postgres, find_postgres
from tests.servers.redis import Redis, find_redis
from towline.client import GraphQLClient
from towline.contexts import ControlPlaneTarget
from towline.demo.git_server import GitServer
from towline.demo.process_group import ProcessGroup
from towline.simulate.control_plane import ControlPlaneAddresses
from towline.simulate.fleet import SimulatedFleet, folder_of
from towline.simulate.results import percentile
from towline.simulate.simulation import Simulation, SimulationPlan
from towline.simulate.usage import ProcessUsage
from towline.simulate.worker_processes import WorkerProcess

Json = JsonObject
Say = Callable[[str], None]

LOAD_S = 6.0
USERS, WRITES = 64, 0.02
RATE, KILLED_RATE = 200.0, 50.0
DRAIN_NOTICE_S, POLL_S = 0.3, 0.5
MAX_WAIT_S = 120.0
QUERY = "{ clusters(first: 20) { edges { node { id handle pingedAt } } } }"
_READ = "query ($id: ID!) { cluster(id: $id) { id handle pingedAt tags { name value } } }"
_WRITE = """mutation ($id: ID!, $turn: String!) {
  updateCluster(id: $id, attributes: {tags: [{name: "turn", value: $turn}]}) { id } }"""
_MOVE = """m{n}: updateServiceDeployment(
  id: "{id}", attributes: {{git: {{ref: "main", folder: "{folder}"}}}}) {{ id }}"""
_BATCH = 20
_SERVICES = """query ($repository: ID!, $after: String) {
  serviceDeployments(first: 100, after: $after, repositoryId: $repository) {
    pageInfo { hasNextPage endCursor }
    edges { node { id sha digest git { folder } cluster { id } } } } }"""


@asynccontextmanager
async def replicated(say: Say) -> AsyncGenerator[tuple[Replicas, Simulation]]:
    """Starts three replicas and a stage without agents."""
    postgres, redis = find_postgres(), find_redis()
    if postgres is None or redis is None:
        raise RuntimeError("PostgreSQL and Redis are needed")
    async with AsyncExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="towline-scale-")))
        database = ends.enter_context(Postgres(postgres))
        bus = ends.enter_context(Redis(redis))
        git = ends.enter_context(GitServer())
        replicas = Replicas(folder, database.new_database(), bus.url)
        ends.callback(replicas.stop)
        replicas.start()
        first = replicas.replicas[0]
        hub = ControlPlaneAddresses(
            ControlPlaneTarget(first.url, first.token),
            tuple(f"127.0.0.1:{replica.agents}" for replica in replicas.replicas),
            (first.data / "tls" / "ca.crt").read_text(),
            ProcessUsage(first.pid),
            git=git,
        )
        group = ends.enter_context(ProcessGroup())
        processes = [await WorkerProcess.start(group, folder / "workers.log") for _ in range(2)]
        stage = Simulation(
            hub, SimulatedFleet(hub.client(), "shared"), processes, SimulationPlan(), say
        )
        try:
            yield replicas, stage
        finally:
            for worker in processes:
                await worker.stop()


class SimulatedUsers:
    """Users that send a total of `rate` requests per second, unless responses are too slow.

    A share of `WRITES` are changes. `retries`: attempts with other replicas after a failure.
    """

    def __init__(
        self, replicas: Replicas, clusters: Sequence[Json], rate: float = RATE, retries: int = 0
    ) -> None:
        self._replicas = replicas
        self._seconds_between = USERS / rate
        self._clusters = clusters
        self._turns = itertools.count(1)
        self._retries = retries
        self.failed = 0
        self.retried = [0] * USERS
        self.took: list[float] = []

    @asynccontextmanager
    async def sending(self) -> AsyncGenerator[None]:
        """Sends requests during the block."""
        over = asyncio.Event()
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as http:
            users = [asyncio.ensure_future(self._user(n, http, over)) for n in range(USERS)]
            try:
                yield
            finally:
                over.set()
                await asyncio.gather(*users)

    async def _user(self, number: int, http: aiohttp.ClientSession, over: asyncio.Event) -> None:
        due = time.monotonic() + number * self._seconds_between / USERS
        while not over.is_set():
            await asyncio.sleep(due - time.monotonic())
            began = time.monotonic()
            self.failed += not await self._send_with_retries(number, http)
            self.took.append(time.monotonic() - began)
            due += self._seconds_between

    async def _send_with_retries(self, number: int, http: aiohttp.ClientSession) -> bool:
        request, tried = self._random_request(), None
        for turn in range(1 + self._retries):
            self.retried[number] += turn > 0
            tried = random.choice(
                [replica for replica in self._replicas.up if replica is not tried]
            )
            if await send_request(http, tried, request):
                return True
        return False

    def _random_request(self) -> Json:
        id = random.choice(self._clusters)["id"]
        if random.random() >= WRITES:
            return {"query": _READ, "variables": {"id": id}}
        return {"query": _WRITE, "variables": {"id": id, "turn": str(next(self._turns))}}


async def send_request(http: aiohttp.ClientSession, replica: Replica, request: Json) -> bool:
    """Sends a request; returns true for a response without errors."""
    headers = {"authorization": f"Bearer {replica.token}"}
    try:
        async with http.post(f"{replica.url}/gql", json=request, headers=headers) as answer:
            return answer.status == 200 and "errors" not in await answer.json()
    except (aiohttp.ClientError, TimeoutError):
        return False


async def roll(report: BenchReport, replicas: Replicas, stage: Simulation) -> None:
    """Restarts each replica in turn while users send requests."""
    users = SimulatedUsers(replicas, stage.fleet.clusters)
    agents = {worker.pid for worker in stage.workers}
    before, began = cpu_seconds_by_role(agents), time.monotonic()
    async with users.sending():
        for replica in replicas.replicas:
            stage.say(f"restarting {replica.name}")
            await _restart(replica)
        used, took = cpu_seconds_by_role(agents), time.monotonic() - began
    name = f"three replicas restarted in turn, {stage.size} agents: requests that failed"
    report.add(name, [users.failed], "", goal=0)
    report.add("the same, requests", [len(users.took)], "")
    report.add("the same, requests per second", [len(users.took) / took], "1/s")
    for kind in sorted(used):
        report.add(f"the same, what {kind} take", [(used[kind] - before[kind]) / took], "cores")
    report.add("the same, p99", [1000 * percentile(users.took, 0.99)], "ms")
    report.add("the same, slowest", [max(users.took)], "s")
    report.add("all agents linked after the last restart", [await stage.wait_linked()], "s")
    spread = await stage.commit()
    report.add(f"then a commit to all of {stage.size}", [max(spread)], "s", goal=10)


async def _restart(replica: Replica) -> None:
    """Restarts a replica as a load balancer and supervisor would: drain, stop, start."""
    replica.is_up = False
    await asyncio.sleep(DRAIN_NOTICE_S)
    replica.drain()
    if code := await asyncio.to_thread(replica.wait_ended):
        raise RuntimeError(f"replica {replica.name} ended with {code}")
    replica.start()
    await asyncio.to_thread(replica.wait_ready)


async def kill_one(report: BenchReport, replicas: Replicas, stage: Simulation) -> None:
    """Kills one replica while users send requests; failed requests go to another replica."""
    victim, users = (
        replicas.replicas[-1],
        SimulatedUsers(replicas, stage.fleet.clusters, KILLED_RATE, retries=3),
    )
    before = await _count_links(stage)
    async with users.sending():
        await asyncio.sleep(LOAD_S / 2)
        stage.say("killing one of three replicas")
        victim.kill()
        took = await stage.wait_linked()
        await asyncio.sleep(LOAD_S / 2)
    report.add("one of three replicas killed: agents back", [took], "s", goal=5)
    report.add("of them, had to come again", [await _count_links(stage) - before], "")
    report.add(
        "the same, requests asked again, most of one client", [max(users.retried)], "", goal=1
    )
    report.add("the same, requests that failed even so", [users.failed], "", goal=0)
    report.add("the same, requests", [len(users.took)], "")
    report.add("the same, p99", [1000 * percentile(users.took, 0.99)], "ms")
    spread = await stage.commit()
    report.add(f"then a commit to all of {stage.size}", [max(spread)], "s", goal=10)
    victim.start()
    await asyncio.to_thread(victim.wait_ready)


async def kill_all(report: BenchReport, replicas: Replicas, stage: Simulation, away: float) -> None:
    """Kills all replicas right after every service was changed, then commits.

    The webhook of that commit is lost, as no replica is running.
    """
    await stage.snapshot()
    stage.say("changing every service, then killing all replicas")
    await asyncio.to_thread(_move_services, stage)
    for replica in replicas.replicas:
        replica.kill()
    sha = await asyncio.to_thread(stage.fleet.commit, next(stage.versions))
    await asyncio.sleep(away)
    stage.say("starting all replicas")
    for replica in replicas.replicas:
        replica.start()
    for replica in replicas.replicas:
        await asyncio.to_thread(replica.wait_ready)
    began = time.monotonic()
    took = await _wait_until_reported(stage, sha) - began
    name = f"all replicas away for {away:.0f} s: what was asked before and committed meanwhile"
    report.add(f"{name} is everywhere", [took], "s", goal=30)
    report.add("the same, agents", [stage.size], "")


def _move_services(stage: Simulation) -> None:
    """Moves each service to the folder of the next group."""
    client = stage.hub.client()
    new_folders, found = _next_folders(stage), fetch_services(client, stage.fleet.repository_id)
    for start in range(0, len(found), _BATCH):
        lines = [
            _MOVE.format(n=n, id=service["id"], folder=new_folders[service["cluster"]["id"]])
            for n, service in enumerate(found[start : start + _BATCH])
        ]
        client.ask(f"mutation {{ {' '.join(lines)} }}")


def _next_folders(stage: Simulation) -> dict[str, str]:
    """Folders of the next group by cluster."""
    return {cluster["id"]: folder_of(n + 1) for n, cluster in enumerate(stage.fleet.clusters)}


def fetch_services(client: GraphQLClient, repository_id: str) -> list[Json]:
    """Fetches all services of a repository from the API."""
    after, found = None, []
    while True:
        answers = client.ask(_SERVICES, repository=repository_id, after=after)
        page = answers["serviceDeployments"]
        found += [edge["node"] for edge in page["edges"]]
        if not page["pageInfo"]["hasNextPage"]:
            return found
        after = page["pageInfo"]["endCursor"]


async def _wait_until_reported(stage: Simulation, sha: str) -> float:
    """Monotonic time when the last agent reported its service at this commit."""
    client, folders = stage.hub.client(), _next_folders(stage)
    reported: dict[str, tuple[str, float]] = {}
    deadline = time.monotonic() + MAX_WAIT_S
    while time.monotonic() < deadline:
        await asyncio.sleep(POLL_S)
        for answers in await stage.snapshot():
            reported |= {row[1]: (row[3], row[5]) for row in answers["settled"]}
        found = await asyncio.to_thread(fetch_services, client, stage.fleet.repository_id)
        if len(found) == stage.size and all(
            service["sha"] == sha
            and service["git"]["folder"] == folders[service["cluster"]["id"]]
            and reported.get(service["id"], ("", 0.0))[0] == service["digest"]
            for service in found
        ):
            return max(at for _, at in reported.values())
    raise RuntimeError(f"not all agents reported the commit within {MAX_WAIT_S:.0f} s")


async def _count_links(stage: Simulation) -> int:
    return sum(answer["links"] for answer in await stage.snapshot())
