"""Remote bases of kustomizations, compared with kustomize, which fetches them itself."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from core.errors import Invalid
from core.spec.source import GitCredentials, RenderedBundle, RenderRequest
from core.spec.statements.attestation import decode_statement
from gitcache.sync.cache import GitCache
from tests.integration.gitcache.chartserver import chart
from tests.integration.gitcache.manifests import config_map
from tests.integration.gitcache.stand import REPOSITORY, at_commit, spec
from towline.demo.git_server import GitServer, ServedRepository

KUSTOMIZE = shutil.which("kustomize") or shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUSTOMIZE is None, reason="no kustomize on this machine")

LIBRARY = {
    "app/kustomization.yaml": "resources: [a.yaml, ../shared]\nnamePrefix: app-\n",
    "app/a.yaml": config_map("a", "1"),
    "shared/kustomization.yaml": "resources: [s.yaml]\n",
    "shared/s.yaml": config_map("s"),
    "extra/kustomization.yaml": (
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nnameSuffix: -x\n"
    ),
    "unread/x.yaml": "not: [read",
}


class Room:
    """A repository of services and a library; `url` is that of the library."""

    def __init__(self, cache: GitCache, server: GitServer) -> None:
        self.cache = cache
        self.server = server
        self.own = server.create_repository("shop")
        self.library = server.create_repository("library")
        self.url = self.library.url

    def release(self, tag: str, files: dict[str, str]) -> str:
        """Commits files to the library, and tags the commit."""
        sha = self.library.commit(dict(files))
        self.library.point(f"refs/tags/{tag}", sha)
        return sha

    def connect(self, repository: ServedRepository, name: str, **more: Any) -> None:
        self.cache.follow(replace(spec(repository.url, repository_id=name), **more))

    async def rendered(self, files: dict[str, str], **more: Any) -> RenderedBundle:
        sha = self.own.commit(dict(files))
        self.cache.follow(replace(spec(self.own.url), **more))
        await at_commit(self.cache, sha)
        return await self.cache.render(RenderRequest(REPOSITORY, sha, "web"))

    async def objects(self, files: dict[str, str]) -> list[dict[str, Any]]:
        bundle = await self.cache.bundle((await self.rendered(files)).digest)
        return [orjson.loads(line) for line in bundle.splitlines()]

    async def refusal(self, files: dict[str, str], **more: Any) -> str:
        with pytest.raises(Invalid) as caught:
            await self.rendered(files, **more)
        return caught.value.message


@pytest.fixture
def room(cache: GitCache, git_server: GitServer) -> Room:
    return Room(cache, git_server)


def by_kustomize(folder: Path, files: dict[str, str]) -> list[dict[str, Any]]:
    """The objects that kustomize builds; it fetches the bases by git."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    verb = "build" if str(KUSTOMIZE).endswith("kustomize") else "kustomize"
    done = subprocess.run(
        [str(KUSTOMIZE), verb, str(folder / "web")],
        check=True,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )
    return list(yaml.safe_load_all(done.stdout))


def overlay(*bases: str, more: str = "") -> dict[str, str]:
    return {"web/kustomization.yaml": f"resources: {orjson.dumps(bases).decode()}\n{more}"}


def named(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return {one["metadata"]["name"]: one for one in objects}


@pytest.mark.parametrize("form", ["{}//app?ref=v1", "git::{}/app?ref=v1&timeout=20", "{}//app"])
async def test_forms_of_remote_bases(room: Room, tmp_path: Path, form: str) -> None:
    room.release("v1", LIBRARY)
    room.connect(room.library, "library")
    files = overlay(form.format(room.url), more="nameSuffix: -prod\n")
    found = await room.objects(files)
    assert named(found) == named(by_kustomize(tmp_path / "own", files))
    assert named(found).keys() == {"app-a-prod", "app-s-prod"}


async def test_two_versions_components_and_bases_of_bases(room: Room, tmp_path: Path) -> None:
    other = room.server.create_repository("other")
    old = room.release("v1", LIBRARY)
    room.release("v2", {**LIBRARY, "app/a.yaml": config_map("a", "2")})
    other.commit({"deep/kustomization.yaml": f"resources: ['{room.url}//app?ref=v2']\n"})
    room.connect(room.library, "library")
    room.connect(other, "other")
    files = {
        **overlay("one", "two"),
        "web/one/kustomization.yaml": (
            f"resources: ['{room.url}//app?ref={old}']\ncomponents: ['{room.url}//extra?ref=v2']\n"
        ),
        "web/two/kustomization.yaml": f"resources: ['{other.url}//deep']\nnamePrefix: two-\n",
    }
    found = named(await room.objects(files))
    assert found == named(by_kustomize(tmp_path / "own", files))
    assert {name: one["data"]["v"] for name, one in found.items() if "a" in name.split("-")} == {
        "app-a-x": "1",
        "two-app-a": "2",
    }


async def test_charts_of_a_remote_base(room: Room) -> None:
    base = {"app/kustomization.yaml": "helmCharts: [{name: near, releaseName: near}]\n"}
    room.release("v1", base | {f"app/charts/near/{path}": t for path, t in chart("near").items()})
    room.connect(room.library, "library")
    assert "near-near" in named(await room.objects(overlay(f"{room.url}//app?ref=v1")))


async def test_a_base_is_fetched_once_signed_and_listed(room: Room) -> None:
    sha = room.release("v1", LIBRARY)
    room.connect(room.library, "library")
    first = await room.rendered(overlay(f"{room.url}//app?ref=v1"))
    fetched = list(room.server.packs)
    second = await room.rendered(overlay(f"{room.url}//app?ref=v1", more="namePrefix: x-\n"))
    assert [one for one in room.server.packs if "library" in one] == [
        one for one in fetched if "library" in one
    ]
    for rendered in (first, second):
        assert {(base.url, base.folder, base.ref) for base in rendered.bases} == {
            (room.url, "app", "v1"),
            (room.url, "shared", "v1"),
        }
        assert rendered.attestation is not None
        signed = decode_statement(rendered.attestation.statement).sources
        assert {(one.url, one.path) for one in signed if one.revision == sha} == {
            (room.url, "app"),
            (room.url, "shared"),
        }


async def test_only_repositories_of_the_project_are_bases(room: Room) -> None:
    """The URL selects a repository, with its credentials, and is never connected to itself."""
    private = room.server.create_repository("private", password="pw")
    private.commit({"app/kustomization.yaml": "resources: [a.yaml]", "app/a.yaml": config_map("a")})
    files = overlay(f"{private.url}//app")
    own = {"project": "p"}
    assert "is not a repository of this project" in await room.refusal(files, **own)
    secret = GitCredentials(password="pw")
    room.connect(private, "private", project="q", credentials=secret)
    assert "is not a repository of this project" in await room.refusal(files, **own)
    assert not [path for path in room.server.requests if "q" in path.split("/")]
    room.connect(private, "private", project="p", credentials=secret)
    assert (await room.rendered(files, **own)).count == 1
    for url in ("http://169.254.169.254/a/b//x", "https://internal.test/a/b//x?ref=main"):
        assert "is not a repository of this project" in await room.refusal(overlay(url), **own)


async def test_bases_have_limits_and_stay_in_their_repository(room: Room) -> None:
    room.release("v1", LIBRARY)
    room.connect(room.library, "library")
    for number in range(33):
        room.library.point(f"refs/tags/n{number}", str(room.library.resolve("refs/tags/v1")))
    many = overlay(*(f"{room.url}//shared?ref=n{number}" for number in range(33)))
    assert "more than 32 remote bases" in await room.refusal(many)
    unknown = overlay(f"{room.url}//x?ref=gone")
    assert "no branch, tag or commit 'gone'" in await room.refusal(unknown)
    assert "folder 'gone' is not in commit" in await room.refusal(overlay(f"{room.url}//gone"))
    room.release("v2", {"app/kustomization.yaml": "resources: [../../../x]\n"})
    assert "leaves the repository" in await room.refusal(overlay(f"{room.url}//app?ref=v2"))
    again = {"app/kustomization.yaml": f"resources: ['{room.url}//app?ref=v3']\n"}
    room.release("v3", again)
    assert "kustomize" in await room.refusal(overlay(f"{room.url}//app?ref=v3"))
