"""Rendering real commits in real worker processes."""

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
import pytest

from core.errors import Invalid, NotFound, TowlineError, Unavailable
from core.spec.renderers import RenderOptions
from core.spec.source import RenderRequest
from gitcache.sync.cache import GitCache
from tests.integration.gitcache.hostile import SYMLINK, blob, commit, commit_folder, tree
from tests.integration.gitcache.manifests import config_map
from tests.integration.gitcache.stand import REPOSITORY, Stand, at_commit, spec, until
from towline.demo.git_server import GitServer, ServedRepository

CANARY = b"root:"
HAS_KUSTOMIZE = shutil.which("kubectl") or shutil.which("kustomize")
needs_kustomize = pytest.mark.skipif(not HAS_KUSTOMIZE, reason="no kustomize on this machine")


@pytest.fixture
def repository(git_server: GitServer) -> ServedRepository:
    """An empty repository."""
    return git_server.create_repository("shop")


Render = Callable[..., Awaitable[list[dict]]]


@pytest.fixture
def render(cache: GitCache, repository: ServedRepository) -> Render:
    """Renders a folder of a commit; the objects."""

    async def render(sha: str, folder: str = "web", **options: object) -> list[dict]:
        cache.follow(spec(repository.url))
        await at_commit(cache, sha)
        request = RenderRequest(REPOSITORY, sha, folder, **options)  # ty: ignore[invalid-argument-type]
        rendered = await cache.render(request)
        return [orjson.loads(line) for line in (await cache.bundle(rendered.digest)).splitlines()]

    return render


async def refusal(work: Awaitable[object]) -> str:
    """The message with which some work is refused."""
    with pytest.raises(Invalid) as caught:
        await work
    assert CANARY.decode() not in caught.value.message
    return caught.value.message


def names(objects: list[dict]) -> list[str]:
    return [one["metadata"]["name"] for one in objects]


async def test_plain_files_below_a_folder(repository: ServedRepository, render: Render) -> None:
    sha = repository.commit(
        {
            "web/b.yaml": config_map("b"),
            "web/a/x.yml": config_map("a"),
            "web/README.md": "{",
            "api/x.yaml": config_map("c"),
        }
    )
    assert names(await render(sha)) == ["a", "b"]
    assert names(await render(sha, "")) == ["c", "a", "b"]


@needs_kustomize
async def test_a_kustomization_with_a_base_beside_it(
    repository: ServedRepository, render: Render, cache: GitCache
) -> None:
    sha = repository.commit(
        {
            "base/kustomization.yaml": "resources: [x.yaml]\n",
            "base/x.yaml": config_map("x"),
            "prod/kustomization.yaml": "resources: [../base]\nnamePrefix: prod-\n",
            "prod/notes.txt": "n",
        }
    )
    assert names(await render(sha, "prod")) == ["prod-x"]
    rendered = await cache.render(RenderRequest(REPOSITORY, sha, "prod"))
    assert rendered.reads == ("prod", "base") and rendered.cached
    changed = repository.commit({"base/x.yaml": config_map("y")})
    assert names(await render(changed, "prod")) == ["prod-y"]


@needs_kustomize
async def test_a_base_below_another_base(repository: ServedRepository, render: Render) -> None:
    """Argo CD's own manifests are made so: an overlay, a part of a base, then all of it."""
    sha = repository.commit(
        {
            "base/config/kustomization.yaml": "resources: [x.yaml]\n",
            "base/config/x.yaml": config_map("x"),
            "base/app/kustomization.yaml": "resources: [y.yaml]\n",
            "base/app/y.yaml": config_map("y"),
            "cluster/base/kustomization.yaml": "resources: [../../base/config, ../over]\n",
            "cluster/over/kustomization.yaml": "resources: [../all]\n",
            "cluster/all/kustomization.yaml": "resources: [../../base]\n",
            "base/kustomization.yaml": "resources: [app]\n",
            "web/kustomization.yaml": "resources: [../base/config, ../base]\n",
        }
    )
    assert sorted(names(await render(sha, "cluster/base"))) == ["x", "y"]
    assert sorted(names(await render(sha, "web"))) == ["x", "y"]


@needs_kustomize
async def test_a_kustomize_path_below_the_folder(
    repository: ServedRepository, render: Render
) -> None:
    sha = repository.commit(
        {
            "shop/base/kustomization.yaml": "resources: [x.yaml]\n",
            "shop/base/x.yaml": config_map("x"),
            "shop/over/prod/kustomization.yaml": "resources: [../../base]\nnameSuffix: -p\n",
        }
    )
    objects = await render(sha, "shop", kustomize_path="over/prod")
    assert names(objects) == ["x-p"]


@needs_kustomize
async def test_kustomize_errors_contain_no_local_paths(
    repository: ServedRepository, render: Render, stand: Stand
) -> None:
    sha = repository.commit({"web/kustomization.yaml": "resources: [missing.yaml]\n"})
    message = await refusal(render(sha))
    assert "missing.yaml" in message and "kustomize" in message
    assert str(stand.folder) not in message


@needs_kustomize
@pytest.mark.parametrize(
    "text",
    [
        "resources: [https://127.0.0.1:1/x.yaml]",
        "resources: ['github.com/org/repo?ref=main']",
        "resources: ['git@github.com:org/repo.git']",
        "resources: [/etc/passwd]",
        "resources: [../../../../../../../../etc]",
        "configMapGenerator: [{name: x, files: [/etc/passwd]}]",
        "configMapGenerator: [{name: x, files: [../../../../../../../../../etc/passwd]}]",
        "patches: [{path: ../../../../../../../etc/passwd}]",
        "helmCharts: [{name: x, repo: 'file:///etc'}]",
        "helmCharts: [{name: x, repo: /etc}]",
        "helmCharts: [{name: ../../../../../../etc}]",
        "{helmGlobals: {chartHome: ../../../../../../etc}, helmCharts: [{name: x}]}",
        "helmCharts: [{name: x, valuesFile: ../../../../../../etc/passwd}]",
        "helmChartInflationGenerator: [{chartName: x}]",
        "generators: [./exec.yaml]",
    ],
)
async def test_kustomizations_that_reach_out_get_nothing(
    repository: ServedRepository, render: Render, text: str
) -> None:
    plugin = (
        "apiVersion: x/v1\nkind: Exec\nmetadata:\n  name: x\n  annotations:\n"
        "    config.kubernetes.io/function: 'exec: {path: ./run.sh}'\n"
    )
    sha = repository.commit(
        {
            "web/kustomization.yaml": text + "\n",
            "web/exec.yaml": plugin,
            "web/run.sh": "#!/bin/sh\ncat /etc/passwd\n",
        }
    )
    await refusal(render(sha))


@needs_kustomize
@pytest.mark.parametrize(
    "text",
    [
        "configMapGenerator: [{name: x, files: [%s]}]",
        "configMapGenerator: [{name: x, envs: [%s]}]",
        "generators: [made.yaml]",
        "replacements: [{path: %s}]",
        "openapi: {path: %s}",
        "configurations: [%s]",
    ],
)
async def test_a_kustomization_does_not_learn_which_files_a_machine_has(
    repository: ServedRepository, render: Render, text: str
) -> None:
    """Whether a file is there or not, the answer is the same, and names no place."""
    made = (
        "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: x}\n"
        "files: [../../../../../../../../../../%s]\n"
    )
    messages = set()
    for path in ("/etc/passwd", "/etc/no-such-file"):
        files: dict[str, str | bytes | None] = {"web/x.yaml": config_map("x")}
        files["web/made.yaml"] = made % path
        whole = text % path if "%s" in text else text
        files["web/kustomization.yaml"] = f"resources: [x.yaml]\n{whole}\n"
        messages.add(await refusal(render(repository.commit(files))))
    assert messages == {"kustomize: a reference leads to a file outside of this repository"}


async def test_templates_are_filled_in(repository: ServedRepository, render: Render) -> None:
    sha = repository.commit({"web/a.yaml.liquid": config_map("c-{{ cluster.handle }}")})
    parameters = {"cluster": {"handle": "eu"}}
    assert names(await render(sha, templated=True, parameters=parameters)) == ["c-eu"]
    message = await refusal(render(sha, templated=True, parameters={"cluster": {}}))
    assert message.startswith("web/a.yaml.liquid, line 3: ") and "`templated: false`" in message


async def test_files_that_a_service_excludes_are_not_read(
    repository: ServedRepository, render: Render
) -> None:
    link = {"web/a.yaml": config_map("a"), "web/tpl/b.yaml": "{{ if }}\nkind: [", "web/c.json": "["}
    sha = repository.commit(link)
    assert "web/c.json, line 1" in await refusal(render(sha))
    options = RenderOptions(exclude=("tpl/**", "*.json"))
    assert names(await render(sha, options=options)) == ["a"]
    assert names(await render(sha, options=RenderOptions(recurse=False, exclude=("c.*",)))) == ["a"]


async def test_an_empty_render_needs_a_switch(repository: ServedRepository, render: Render) -> None:
    sha = repository.commit({"web/README.md": "nothing yet"})
    assert "`rendering.allowEmpty`" in await refusal(render(sha))
    assert await render(sha, options=RenderOptions(allow_empty=True)) == []


async def test_manifests_with_templates_of_others_stay_as_they_are(
    repository: ServedRepository, render: Render
) -> None:
    """Prometheus rules and Grafana dashboards contain `{{ … }}`."""
    sha = repository.commit(
        {
            "web/a.yaml": config_map("a", "{{ $labels.job }} is {% raw %}down"),
            "api/a.yaml.liquid": config_map("a"),
            "base/a.yaml": config_map("{{ cluster.handle }}"),
        }
    )
    (rule,) = await render(sha)
    assert rule["data"] == {"v": "{{ $labels.job }} is {% raw %}down"}
    for folder in ("api", "base"):
        assert "`templated: true`" in await refusal(render(sha, folder))


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"web/a.yaml": "a: [\n"}, "web/a.yaml, line"),
        ({"web/a.yaml": "# nothing\n"}, "no objects"),
        (
            {"web/a.yaml": config_map("x"), "web/b.yaml": config_map("x", "2")},
            "web/a.yaml, line 1 and",
        ),
        ({"web/a.yaml": b"a: \xff\n"}, "not UTF-8"),
        ({"web/a.yaml": "- " * 300_000}, "nested too deeply"),
        ({"web/a.yaml": "[" * 300_000}, "nested too deeply"),
        ({"web/a.yaml": "---\na: 1\n" * 50_001}, "a.yaml"),
        ({"web/a.yaml": "x" * (17 << 20)}, "the limit is"),
        ({"web/a.json": "[" * 300_000}, "nested too deeply"),
        ({"other/a.yaml": config_map("x")}, "folder 'web' is not in commit"),
    ],
)
async def test_a_broken_folder_is_refused_with_the_reason(
    repository: ServedRepository, render: Render, files: dict[str, str | bytes | None], reason: str
) -> None:
    assert reason in await refusal(render(repository.commit(files)))


async def test_a_folder_of_too_many_files_is_refused_alone(
    repository: ServedRepository, render: Render
) -> None:
    many = {f"web/f{number}.yaml": "" for number in range(10_500)}
    sha = repository.commit({**many, "api/a.yaml": config_map("a")})
    assert "more than 10,000 files" in await refusal(render(sha))
    assert names(await render(sha, "api")) == ["a"]


@pytest.mark.parametrize(
    "target",
    [b"/etc/passwd", b"../../../../etc/passwd", b"../secret.yaml", b"loop.yaml", b"x" * 5000],
)
async def test_links_out_of_the_folder_are_refused(
    repository: ServedRepository, render: Render, target: bytes
) -> None:
    sha = commit_folder(repository, {"loop.yaml": (SYMLINK, target)})
    assert "web/loop.yaml is a symbolic link" in await refusal(render(sha))


async def test_links_inside_the_folder_are_followed(
    repository: ServedRepository, render: Render
) -> None:
    sha = commit_folder(
        repository,
        {"link.yaml": (SYMLINK, b"real.txt"), "real.txt": ("100644", config_map("x").encode())},
    )
    assert names(await render(sha)) == ["x"]


@pytest.mark.parametrize("name", ["..", ".", ".git", ".GIT", "a/b"])
async def test_forbidden_names_never_enter_the_clone(
    repository: ServedRepository, cache: GitCache, name: str
) -> None:
    """Git refuses them while fetching; the last good commit stays."""
    good = repository.commit({"web/a.yaml": config_map("a")})
    cache.follow(spec(repository.url))
    await at_commit(cache, good)
    file = blob(repository, config_map("evil").encode())
    commit(repository, tree(repository, ("40000", name, tree(repository, ("100644", "a", file)))))
    state = await until(cache, lambda state: state.error)
    assert state.commits["main"].sha == good
    cache.follow(spec(repository.url, "main", "fine"))
    fine = repository.commit({"web/a.yaml": config_map("b")}, branch="fine")
    state = await at_commit(cache, fine, "fine")
    assert state.commits["main"].sha == good


async def test_a_submodule_is_left_out(repository: ServedRepository, render: Render) -> None:
    file = blob(repository, config_map("a").encode())
    web = tree(repository, ("100644", "a.yaml", file), ("160000", "sub", "1" * 40))
    sha = commit(repository, tree(repository, ("40000", "web", web)))
    assert names(await render(sha)) == ["a"]


async def test_a_billion_laughs_harms_nobody_else(
    repository: ServedRepository, render: Render
) -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    sha = repository.commit({"web/a.yaml": "\n".join(lines), "api/a.yaml": config_map("a")})
    bomb, fine = await asyncio.gather(refusal(render(sha)), render(sha, "api"))
    assert "values in one document" in bomb and names(fine) == ["a"]


async def test_a_template_that_never_ends_is_stopped_and_others_go_on(
    repository: ServedRepository, stand: Stand
) -> None:
    cache = await stand.start(render_seconds=1.0)
    loops = "{% for i in (1..90000) %}{% assign s = s | append: 'xxxxxxxxxxxxxxxxxxxxxx' %}"
    sha = repository.commit(
        {
            "web/a.yaml": "{% assign s = '' %}" + loops + "{% endfor %}",
            "api/a.yaml": config_map("a"),
        }
    )
    cache.follow(spec(repository.url))
    await at_commit(cache, sha)
    request = RenderRequest(REPOSITORY, sha, "web", templated=True)
    assert "did not finish within 1 s" in await refusal(cache.render(request))
    assert (await cache.render(RenderRequest(REPOSITORY, sha, "api"))).count == 1


async def test_a_folder_that_needs_too_much_memory_fails_alone(
    repository: ServedRepository, stand: Stand
) -> None:
    cache = await stand.start(memory=160 << 20)
    line = "x" * (15 << 20)
    big = {f"web/{number}.yaml": config_map(f"c{number}", line) for number in range(4)}
    sha = repository.commit({**big, "api/a.yaml": config_map("a")})
    cache.follow(spec(repository.url))
    await at_commit(cache, sha)
    message = await refusal(cache.render(RenderRequest(REPOSITORY, sha, "web")))
    assert "memory" in message
    assert (await cache.render(RenderRequest(REPOSITORY, sha, "api"))).count == 1


async def test_a_worker_that_dies_is_replaced(
    repository: ServedRepository, render: Render, cache: GitCache
) -> None:
    sha = repository.commit({"web/a.yaml": config_map("a"), "api/a.yaml": config_map("b")})
    assert names(await render(sha)) == ["a"]
    for pid in worker_pids():
        os.kill(pid, signal.SIGKILL)
    await asyncio.sleep(0.2)
    assert names(await render(sha, "api")) == ["b"]


def network_devices(pid: int) -> list[str]:
    """The network interfaces that a process sees."""
    lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    return [line.split(":")[0].strip() for line in lines]


def worker_pids() -> list[int]:
    """Render workers that this process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            command = (path.parent / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if parent == os.getpid() and b"gitcache.render.worker" in command:
            found.append(int(path.parent.name))
    return found


async def test_a_worker_has_no_network_where_namespaces_are_permitted(
    repository: ServedRepository, render: Render
) -> None:
    sha = repository.commit({"web/a.yaml": config_map("a")})
    await render(sha)
    (pid,) = worker_pids()
    if os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net"):
        pytest.skip("platform: network namespaces are not permitted here")
    assert network_devices(pid) == ["lo"]


async def test_equal_folders_of_other_commits_render_once(
    repository: ServedRepository, render: Render, cache: GitCache
) -> None:
    first = repository.commit({"web/a.yaml": config_map("a"), "api/a.yaml": config_map("b")})
    await render(first)
    second = repository.commit({"api/a.yaml": config_map("b", "2")})
    await render(second)
    one = await cache.render(RenderRequest(REPOSITORY, first, "web"))
    two = await cache.render(RenderRequest(REPOSITORY, second, "web"))
    assert (one.source, one.digest) == (two.source, two.digest) and two.cached


async def test_a_poisoned_bundle_is_dropped_and_rendered_again(
    repository: ServedRepository, stand: Stand
) -> None:
    sha = repository.commit({"web/a.yaml": config_map("a")})
    cache = await stand.start()
    cache.follow(spec(repository.url))
    await at_commit(cache, sha)
    rendered = await cache.render(RenderRequest(REPOSITORY, sha, "web"))
    await stand.stop(cache)
    (kept,) = [path for path in (stand.folder / "bundles").rglob("*") if path.is_file()]
    kept.write_bytes(kept.read_bytes().replace(b'"1"', b'"9"'))
    again = await stand.start()
    with pytest.raises(NotFound):
        await again.bundle(rendered.digest)
    again.follow(spec(repository.url))
    await at_commit(again, sha)
    fresh = await again.render(RenderRequest(REPOSITORY, sha, "web"))
    assert fresh.digest == rendered.digest and not fresh.cached
    assert b'"9"' not in await again.bundle(fresh.digest)


@pytest.mark.parametrize("digest", ["", "x", "sha256:../../etc/passwd", "sha256:" + "0" * 64])
async def test_unknown_bundles_are_not_found(cache: GitCache, digest: str) -> None:
    with pytest.raises(NotFound):
        await cache.bundle(digest)


async def test_a_disk_that_cannot_be_written_is_named(
    repository: ServedRepository, cache: GitCache, stand: Stand
) -> None:
    sha = repository.commit({"web/a.yaml": config_map("a")})
    cache.follow(spec(repository.url))
    await at_commit(cache, sha)
    (stand.folder / "bundles").write_text("in the way")
    with pytest.raises(Unavailable, match="disk"):
        await cache.render(RenderRequest(REPOSITORY, sha, "web"))
    (stand.folder / "bundles").unlink()
    assert (await cache.render(RenderRequest(REPOSITORY, sha, "web"))).count == 1


async def test_a_repository_that_is_not_followed_is_unavailable(cache: GitCache) -> None:
    with pytest.raises(TowlineError, match="not followed"):
        await cache.render(RenderRequest(REPOSITORY, "1" * 40, "web", "raw"))
