"""Input of a render besides its folder: Jsonnet imports, links, other repositories."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from core.errors import Invalid
from core.identity import RepositoryId
from core.spec.renderers import RenderOptions, RenderValue
from core.spec.source import RenderRequest, SourceFolder
from core.spec.statements.attestation import decode_statement
from gitcache.sync.cache import GitCache
from syncagent.autonomy.policy import SourcePolicy
from tests.integration.gitcache.hostile import SYMLINK, blob, commit, tree
from tests.integration.gitcache.manifests import config_map
from tests.integration.gitcache.stand import REPOSITORY, at_commit, spec, until
from towline.demo.git_server import GitServer, ServedRepository

CANARY = "root:"
Objects = Callable[..., Awaitable[dict[str, dict[str, Any]]]]


@pytest.fixture
def repository(git_server: GitServer) -> ServedRepository:
    """An empty repository."""
    return git_server.create_repository("shop")


@pytest.fixture
def objects(cache: GitCache, repository: ServedRepository) -> Objects:
    """Renders a folder of a commit; the objects by name."""

    async def objects(sha: str, folder: str = "web", **options: Any) -> dict[str, dict[str, Any]]:
        cache.follow(spec(repository.url))
        await at_commit(cache, sha)
        rendered = await cache.render(RenderRequest(REPOSITORY, sha, folder, **options))
        lines = (await cache.bundle(rendered.digest)).splitlines()
        found = [orjson.loads(line) for line in lines]
        return {one["metadata"]["name"]: one for one in found}

    return objects


LIQUID = "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: {{ configuration.name }}\n"
ROLE = """apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: pwned}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
"""


async def test_a_statement_covers_every_source_and_value(
    cache: GitCache, git_server: GitServer
) -> None:
    """An agent that lists one folder refuses a bundle with anything from elsewhere."""
    trusted, evil = git_server.create_repository("trusted"), git_server.create_repository("evil")
    kustomization = "resources: [../base]\n"
    good = trusted.commit(
        {
            "prod/a.yaml": config_map("honest"),
            "over/kustomization.yaml": kustomization,
            "base/kustomization.yaml": "resources: [b.yaml]\n",
            "base/b.yaml": config_map("base"),
            "liquid/c.yaml.liquid": LIQUID,
        }
    )
    bad = evil.commit({"x/rbac.yaml": ROLE})
    cache.follow(spec(trusted.url))
    cache.follow(spec(evil.url, repository_id="evil"))
    await at_commit(cache, good)
    await until(cache, lambda state: state.commits, repository_id=RepositoryId("evil"))

    async def refusal(*folders: str, values: tuple[str, ...] = (), **options: Any) -> str:
        """The reason of an agent that lists these folders; empty if it accepts the bundle."""
        rendered = await cache.render(RenderRequest(REPOSITORY, good, **options))
        assert rendered.attestation is not None
        statement = decode_statement(rendered.attestation.statement)
        listed = [f"*={trusted.url}#{folder}" for folder in folders]
        try:
            SourcePolicy.of(listed, values).check("shop", statement)
        except Invalid as error:
            return error.message
        return ""

    assert await refusal("prod", folder="prod") == ""
    mounted = SourceFolder(RepositoryId("evil"), bad, "x", "more")
    assert "evil" in await refusal("prod", folder="prod", sources=(mounted,))
    assert "folder base" in await refusal("over", folder="over", renderer="kustomize")
    assert await refusal("over", "base", folder="over", renderer="kustomize") == ""
    without = RenderOptions(exclude=("policy.yaml",))
    assert "values" in await refusal("prod", folder="prod", options=without)
    injected = {"configuration": {"name": "a\n---\n" + ROLE}}
    liquid: dict[str, Any] = {"folder": "liquid", "templated": True, "parameters": injected}
    assert "values of the API" in await refusal("liquid", **liquid)
    assert await refusal("liquid", values=("*",), **liquid) == ""


MAIN = """
// A comment before it.
local lib = import '../lib/maps.libsonnet';
function(configuration) {
  all: [lib.map('a', std.extVar('cluster.handle')), lib.map('b', configuration.size)],
  none: null,
}
"""
LIB = (
    "{ map(name, v):: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: name },"
    " data: { v: v } } }"
)


async def test_jsonnet_imports_what_is_in_the_commit_and_knows_parameters(
    repository: ServedRepository, objects: Objects, cache: GitCache
) -> None:
    sha = repository.commit({"web/main.jsonnet": MAIN, "lib/maps.libsonnet": LIB})
    parameters = {"cluster": {"handle": "eu", "name": "x"}, "configuration": {"size": "3"}}
    found = await objects(sha, parameters=parameters)
    assert {name: one["data"]["v"] for name, one in found.items()} == {"a": "eu", "b": "3"}
    request = RenderRequest(REPOSITORY, sha, "web", parameters=parameters)
    first = await cache.render(request)
    assert first.reads == ("web", "lib/maps.libsonnet")
    renamed = {**parameters, "cluster": {"handle": "eu", "name": "y"}}
    other = await cache.render(RenderRequest(REPOSITORY, sha, "web", parameters=renamed))
    assert other.cached and other.source == first.source


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{ a: import '/etc/passwd' }", "not in this commit"),
        ("{ a: importstr '../../../../../../etc/passwd' }", "leaves the repository"),
        ("{ a: importstr 'file:///etc/passwd' }", "not in this commit"),
        ("local f(x) = f(x) + 1; f(1)", "stack"),
        ("{\n a: 1 +\n}", "web/main.jsonnet:3"),
        ("{ a: std.extVar('nobody') }", "nobody"),
        ("'text'", "not a Kubernetes object"),
        ("{}", "no objects"),
    ],
)
async def test_invalid_jsonnet_is_refused_with_the_reason(
    repository: ServedRepository, objects: Objects, text: str, reason: str
) -> None:
    sha = repository.commit({"web/main.jsonnet": text})
    with pytest.raises(Invalid) as caught:
        await objects(sha)
    assert reason in caught.value.message and CANARY not in caught.value.message


async def test_jsonnet_decodes_binary_data_as_go_jsonnet_does(
    repository: ServedRepository, objects: Objects
) -> None:
    """kube.libsonnet decodes the data of each SealedSecret, which is encrypted."""
    library = (
        "{ map(name, data):: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: name },\n"
        "  assert std.base64Decode(data) != '',\n"
        "  data: { v: std.base64Decode(data), sum: std.base64(std.base64Decode('w6Q=')) } } }"
    )
    main = "local lib = import 'lib.libsonnet'; lib.map('a', '4oIo/yhB')"
    sha = repository.commit({"web/main.jsonnet": main, "web/lib.libsonnet": library})
    found = await objects(sha)
    assert found["a"]["data"] == {"v": "\ufffd\ufffd(\ufffd(A", "sum": "w6Q="}
    broken = {"web/main.jsonnet": "local lib = import 'lib.libsonnet'; lib.map('a', 'no base64')"}
    with pytest.raises(Invalid, match=r"base64.*web/lib\.libsonnet:2"):
        await objects(repository.commit(broken))


async def test_jsonnet_of_a_bundler_project(
    repository: ServedRepository, objects: Objects, cache: GitCache
) -> None:
    """An entry file below the project, libraries in `vendor` and `lib`, variables, arguments."""
    sha = repository.commit(
        {
            "jsonnetfile.json": "{}",
            "vendor/github.com/org/maps/maps.libsonnet": LIB,
            "vendor/deep.libsonnet": "import 'github.com/org/maps/maps.libsonnet'",
            "lib/maps.libsonnet": "import 'deep.libsonnet'",
            "own/maps.libsonnet": "import '../vendor/deep.libsonnet'",
            "web/prod/app.jsonnet": (
                "local maps = import 'maps.libsonnet';\n"
                "function(name, size=1) maps.map(name, std.extVar('env') + size)"
            ),
        }
    )
    options = RenderOptions(
        entry="prod/app.jsonnet",
        variables=(RenderValue("env", "prod"),),
        arguments=(RenderValue("name", "a"), RenderValue("size", "1 + 1", code=True)),
    )
    found = await objects(sha, options=options)
    assert found["a"]["data"] == {"v": "prod2"}
    request = RenderRequest(REPOSITORY, sha, "web", options=options)
    reads = (await cache.render(request)).reads
    assert reads == ("web", "lib", "vendor")
    own = await objects(sha, options=replace(options, libraries=("../own",)))
    assert own == found
    without = replace(options, arguments=())
    with pytest.raises(Invalid, match=r"^web/prod/app\.jsonnet: jsonnet: .*argument"):
        await objects(sha, options=without)
    with pytest.raises(Invalid, match=r"'x\.txt' is not an entry file"):
        await objects(sha, options=RenderOptions(entry="x.txt"))


async def test_jsonnet_errors_name_the_file(repository: ServedRepository, objects: Objects) -> None:
    sha = repository.commit(
        {
            "web/main.jsonnet": "import 'a.libsonnet'",
            "web/a.libsonnet": "import 'gone/b.libsonnet'",
            "api/main.jsonnet": "import 'a.libsonnet'",
            "api/a.libsonnet": "{\n a: error 'bad' }",
        }
    )
    with pytest.raises(Invalid, match=r"web/a\.libsonnet imports gone/b\.libsonnet, which is not"):
        await objects(sha)
    with pytest.raises(Invalid, match=r"bad; api/a\.libsonnet:2"):
        await objects(sha, folder="api")


async def test_a_link_to_a_file_of_the_same_commit_is_followed_and_counts(
    repository: ServedRepository, objects: Objects, cache: GitCache
) -> None:
    def linked(value: str) -> str:
        link = ("120000", "link.yaml", blob(repository, b"../common/x.yaml"))
        shared = ("100644", "x.yaml", blob(repository, config_map("x", value).encode()))
        folders = (("40000", "common", tree(repository, shared)),)
        web = ("40000", "web", tree(repository, link))
        return commit(repository, tree(repository, *folders, web))

    assert SYMLINK == "120000"
    sha = linked("1")
    assert (await objects(sha))["x"]["data"]["v"] == "1"
    rendered = await cache.render(RenderRequest(REPOSITORY, sha, "web"))
    assert rendered.reads == ("web", "common/x.yaml")
    assert (await objects(linked("2")))["x"]["data"]["v"] == "2"


async def test_several_sources_are_merged_and_collisions_are_named(
    repository: ServedRepository, objects: Objects, cache: GitCache, git_server: GitServer
) -> None:
    other = git_server.create_repository("values")
    theirs = other.commit({"prod/extra.yaml": config_map("extra"), "prod/a.yaml": config_map("a")})
    other_id = RepositoryId("values")
    cache.follow(spec(other.url, repository_id=other_id))
    await until(cache, lambda state: state.commits, repository_id=other_id)
    sha = repository.commit({"web/a.yaml": config_map("own"), "web/b/x.txt": ""})
    beside = SourceFolder(other_id, theirs, "prod", "other")
    assert set(await objects(sha, sources=(beside,))) == {"own", "extra", "a"}
    over = SourceFolder(other_id, theirs, "prod", "")
    with pytest.raises(Invalid, match="web/a.yaml comes from two sources"):
        await objects(sha, sources=(over,))
    with pytest.raises(Invalid, match="leaves the service's folder"):
        await objects(sha, sources=(SourceFolder(other_id, theirs, "prod", "../api"),))
