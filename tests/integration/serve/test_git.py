"""Git behind the whole program: webhooks, servers that die, folders at fault."""

import asyncio
import hashlib
import hmac
from http import HTTPStatus
from io import BytesIO
from pathlib import Path

import orjson
import pytest

from controlplane.services.ports import ServiceStore
from tests.integration.serve.conftest import Json, Running, running
from tests.integration.serve.waiting import until
from towline.demo.git_server import GitServer, ServedRepository

SECRET = "s3cret"


def config(name: str, **data: str) -> str:
    """A manifest."""
    one = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    return orjson.dumps(one).decode()


async def shop(hub: Running, server: GitServer, **more: str) -> tuple[ServedRepository, str, str]:
    """A repository with a rendered service; the ids of both."""
    repository = server.create_repository("shop")
    repository.commit({"web/a.yaml": config("web", version="1")})
    cluster = await hub.cluster()
    id = await hub.repository(repository.url, **more)
    service = await hub.service(cluster["id"], id, "web")
    await hub.service_until(service, lambda seen: seen["revision"])
    return repository, id, service


async def state(hub: Running, id: str) -> Json:
    """State of a repository in the API."""
    document = "query ($id: ID!) { gitRepository(id: $id) { health error } }"
    return (await hub.ask(document, id=id))["gitRepository"]


async def push_hook(
    hub: Running, id: str, body: bytes, secret: str, provider: str = "github"
) -> int:
    """The status that a signed delivery of a provider gets."""
    signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "x-hub-signature-256": signature,
        "x-github-event": "push",
        "content-type": "application/json",
    }
    url = f"{hub.url}/webhooks/git/{provider}/{id}"
    async with hub.http.post(url, data=BytesIO(body), headers=headers) as answer:
        return answer.status


async def test_a_signed_hint_delivers_long_before_the_next_poll(
    tmp_path: Path, git_server: GitServer
) -> None:
    """With polls an hour apart, only the webhook can have brought the commit."""
    slow = {"poll": {"seconds": 3600, "seconds_with_webhook": 3600}}
    async with running(tmp_path, git=slow) as hub:
        repository, id, service = await shop(hub, git_server, webhookSecret=SECRET)
        sha = repository.commit({"web/a.yaml": config("web", version="2")})
        body = orjson.dumps({"ref": "refs/heads/main", "after": sha})
        assert await push_hook(hub, id, body, "wrong") == 401
        assert await push_hook(hub, id, b"{}" + body, SECRET) == 202  # signed, not understood
        assert await push_hook(hub, id, body, SECRET) == 202
        await hub.service_until(service, lambda seen: seen["sha"] == sha)


async def test_a_mistyped_url_shows_before_a_service_uses_it(
    hub: Running, git_server: GitServer
) -> None:
    """In the list and in the repository; the right URL is asked at once."""
    url = git_server.create_repository("right").url
    wrong = await hub.repository(f"{url}-mistyped")
    charts = await hub.ask(
        """mutation ($url: String!) {
          createHelmRepository(attributes: {url: $url}) { id } }""",
        url=f"{url}-charts",
    )

    async def git_state() -> Json:
        return await state(hub, wrong)

    async def helm_state() -> Json:
        document = "query ($id: ID!) { helmRepository(id: $id) { health error } }"
        id = charts["createHelmRepository"]["id"]
        return (await hub.ask(document, id=id))["helmRepository"]

    await until(git_state, lambda seen: seen["health"] == "FAILED" and seen["error"])
    await until(helm_state, lambda seen: seen["health"] == "FAILED" and seen["error"])
    listed = await hub.ask("{ gitRepositories { edges { node { error } } } }")
    assert [bool(edge["node"]["error"]) for edge in listed["gitRepositories"]["edges"]] == [True]
    await hub.ask(
        """mutation ($id: ID!, $url: String!) {
          updateGitRepository(id: $id, attributes: {url: $url}) { id } }""",
        id=wrong,
        url=url,
    )
    await until(git_state, lambda seen: seen == {"health": "PULLABLE", "error": None})


async def test_hints_of_strangers_are_refused_alike(hub: Running, git_server: GitServer) -> None:
    """A wrong signature, no secret and no repository get the same response."""
    _, guarded, _ = await shop(hub, git_server, webhookSecret=SECRET)
    open_one = await hub.repository("https://127.0.0.1:1/x.git")
    for id in (guarded, open_one, "absent"):
        for secret in ("wrong", ""):
            assert await push_hook(hub, id, b"{}", secret) == 401
    assert await push_hook(hub, guarded, b"{}", SECRET, "perforce") == 404


async def test_a_huge_hint_is_refused(hub: Running, git_server: GitServer) -> None:
    """Signed or not; the next one is taken."""
    _, id, _ = await shop(hub, git_server, webhookSecret=SECRET)
    assert await push_hook(hub, id, b"x" * (6 << 20), SECRET) == 413
    assert await push_hook(hub, id, b"{}", SECRET) == 202


async def test_a_dead_git_server_is_named_and_its_services_stay(
    hub: Running, git_server: GitServer
) -> None:
    """It recovers by itself once the server is back."""
    repository, id, service = await shop(hub, git_server)
    before = await hub.get(service)
    git_server.stop()
    failed = await until(lambda: state(hub, id), lambda seen: seen["health"] == "FAILED")
    assert "127.0.0.1" in failed["error"]
    assert await hub.get(service) == before
    sha = repository.commit({"web/a.yaml": config("web", version="2")})
    git_server.start()
    await hub.service_until(service, lambda seen: seen["sha"] == sha, 60)
    healthy = await until(lambda: state(hub, id), lambda seen: seen["health"] == "PULLABLE")
    assert healthy["error"] is None


@pytest.mark.parametrize("status", [HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.FORBIDDEN])
async def test_a_refusing_git_server_is_named(
    hub: Running, git_server: GitServer, status: HTTPStatus
) -> None:
    _, id, _ = await shop(hub, git_server)
    git_server.fail = status
    failed = await until(lambda: state(hub, id), lambda seen: seen["health"] == "FAILED")
    assert str(status.value) in failed["error"]
    git_server.fail = None
    await until(lambda: state(hub, id), lambda seen: seen["health"] == "PULLABLE", 60)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"web/a.yaml": "a: [1"}, "web/a.yaml"),
        ({"web/a.yaml": None}, "web"),
        ({"web/a.yaml": "kind: ConfigMap\n"}, "web/a.yaml"),
        ({"web/a.yaml": "&a [*a, *a]"}, "web/a.yaml"),
    ],
)
async def test_a_folder_at_fault_is_named_and_the_last_good_stays(
    hub: Running, git_server: GitServer, files: dict[str, str | None], said: str
) -> None:
    """The error names the file; the next good commit clears it."""
    repository, _, service = await shop(hub, git_server)
    good = (await hub.get(service))["revision"]
    repository.commit(dict(files))
    broken = await hub.service_until(service, lambda seen: seen["errors"])
    assert said in broken["errors"][0]["message"]
    assert broken["revision"] == good
    sha = repository.commit({"web/a.yaml": config("web", version="3")})
    fixed = await hub.service_until(service, lambda seen: seen["sha"] == sha)
    assert fixed["errors"] == []
    assert fixed["revision"] != good


async def test_a_missing_folder_and_branch_are_named(hub: Running, git_server: GitServer) -> None:
    """And others of the repository are delivered."""
    repository, id, _ = await shop(hub, git_server)
    cluster = await hub.cluster("other")
    missing = await hub.service(cluster["id"], id, "absent")
    seen = await hub.service_until(missing, lambda seen: seen["errors"])
    assert "absent" in seen["errors"][0]["message"]
    present = await hub.service(cluster["id"], id, "web")
    await hub.service_until(present, lambda seen: seen["revision"])
    repository.commit({"absent/a.yaml": config("late")})
    await hub.service_until(missing, lambda seen: seen["revision"] and not seen["errors"])
    await asyncio.sleep(0)


async def test_templates_read_contexts_and_follow_their_changes(
    hub: Running, git_server: GitServer
) -> None:
    """Contexts saved by Terraform reach the objects; secrets too, and no response shows them."""
    saved = await hub.ask(
        """mutation { saveServiceContext(name: "network", attributes: {
          configuration: "{\\"vpc\\": \\"vpc-1\\"}", secrets: [{name: "key", value: "hunter2"}]
        }) { id configuration } }"""
    )
    context = saved["saveServiceContext"]
    assert context["configuration"] == {"vpc": "vpc-1"}
    repository = git_server.create_repository("contexts")
    text = config("web", vpc="{{ contexts.network.vpc }}", key="{{ contexts.network.key }}")
    repository.commit({"web/a.yaml": text})
    cluster = await hub.cluster()
    service = await hub.service(
        cluster["id"], await hub.repository(repository.url), "web", templated=True
    )
    await hub.service_until(service, lambda seen: "network" in str(seen["errors"]))
    bind = """mutation ($id: ID!, $context: ID!) { updateServiceDeployment(id: $id,
      attributes: {contextBindings: [{contextId: $context}]}) { contexts { name } } }"""
    bound = await hub.ask(bind, id=service, context=context["id"])
    assert bound["updateServiceDeployment"]["contexts"] == [{"name": "network"}]
    seen = await hub.service_until(service, lambda seen: seen["revision"])
    assert b'"key":"hunter2","vpc":"vpc-1"' in await bundle_of(hub, service)
    await hub.ask(
        """mutation { saveServiceContext(name: "network", attributes: {
          configuration: "{\\"vpc\\": \\"vpc-2\\"}" }) { id } }"""
    )
    await hub.service_until(service, lambda now: now["revision"] != seen["revision"])
    assert b'"key":"hunter2","vpc":"vpc-2"' in await bundle_of(hub, service)


async def bundle_of(hub: Running, service: str) -> bytes:
    """Bundle that the agent of a service's cluster would fetch."""
    plane = hub.process.plane
    async with plane.context.store.read() as tx:
        row = await tx[ServiceStore].get(service)
    assert row is not None
    assert row.desired.digest is not None
    return await plane.context.manifests.bundle(row.desired.digest)
