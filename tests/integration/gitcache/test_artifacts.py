"""Artifacts in a real registry, pushed by ORAS: followed, unpacked and rendered like commits."""

import base64
import gzip
import io
import json
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from core.errors import Invalid, Unavailable
from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.image_signatures import SignatureRules
from core.spec.source import (
    GitCredentials,
    RenderRequest,
    RepositoryKind,
    RepositorySpec,
    SourceFolder,
)
from core.spec.source_signatures import SignatureRule, check_signatures, decode_evidence
from core.spec.statements.attestation import decode_statement
from gitcache.sync.cache import GitCache
from tests.integration.gitcache.manifests import config_map
from tests.integration.gitcache.stand import REPOSITORY, Stand, until
from tests.integration.gitcache.test_signed_images import registry, sign, signer_set
from tests.servers.oras import find_oras
from tests.servers.registry import PASSWORD, USER, Registry

__all__ = ["registry"]

NOW = SystemClock().now()
FLUX = "application/vnd.cncf.flux.content.v1.tar+gzip"
FLUX_CONFIG = "application/vnd.cncf.flux.config.v1+json"


def packed(files: Mapping[str, str]) -> bytes:
    """A tar archive like that of `flux push artifact`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, text in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return gzip.compress(buffer.getvalue(), mtime=0)


def push(
    registry: Registry, name: str, tag: str, files: Mapping[str, str], **annotations: str
) -> str:
    """Pushes what `flux push artifact` makes of a folder; returns the digest."""
    given = {f"org.opencontainers.image.{key}": value for key, value in annotations.items()}
    layer: tuple[dict[str, Any], bytes] = ({"mediaType": FLUX}, packed(files))
    return registry.store(name, tag, [layer], FLUX_CONFIG, annotations=given)


def shop(value: str) -> dict[str, str]:
    """Files of a folder with a kustomization, and of a folder beside it."""
    return {
        "app/kustomization.yaml": "resources: [map.yaml]\nnamePrefix: big-\n",
        "app/map.yaml": config_map("web", value),
        "other/map.yaml": config_map("other"),
    }


def artifacts(registry: Registry, name: str, *refs: str, **fields: Any) -> RepositorySpec:
    given = fields.pop("credentials", GitCredentials(username=USER, password=PASSWORD))
    return RepositorySpec(
        REPOSITORY,
        f"oci://{registry.host}/{name}",
        frozenset(refs),
        given,
        kind=RepositoryKind.OCI,
        **fields,
    )


async def commit_of(cache: GitCache, ref: str, digest: str) -> str:
    """Waits until a ref is at an artifact; returns its commit."""
    state = await until(
        cache, lambda s: ref in s.commits and s.commits[ref].subject.endswith(f"@{digest}")
    )
    return state.commits[ref].sha


async def shown(cache: GitCache, sha: str, folder: str = "app") -> dict[str, str]:
    """The values of the rendered ConfigMaps, by name."""
    rendered = await cache.render(RenderRequest(REPOSITORY, sha, folder))
    objects = map(orjson.loads, (await cache.bundle(rendered.digest)).splitlines())
    return {item["metadata"]["name"]: item["data"]["v"] for item in objects}


async def test_a_moved_tag_is_a_new_commit_that_is_rendered(
    cache: GitCache, registry: Registry
) -> None:
    given = {
        "revision": "main@sha1:5af1",
        "created": "2026-02-03T04:05:06Z",
        "source": "https://git.example.org/shop",
    }
    first = push(registry, "team/moved", "latest", shop("1"), **given)
    cache.follow(artifacts(registry, "team/moved", "latest"))
    before = await commit_of(cache, "latest", first)
    state = cache.state(REPOSITORY)
    assert state is not None and state.error is None and state.reached
    commit = state.commits["latest"]
    assert commit.subject == f"main@sha1:5af1@{first}"
    assert commit.author == f"{registry.host} <{registry.host}>"
    assert commit.committed_at.isoformat() == "2026-02-03T04:05:06+00:00"
    assert await shown(cache, before) == {"big-web": "1"}
    assert await cache.folders(REPOSITORY, before, "", 2) == ["app", "other"]
    second = push(registry, "team/moved", "latest", shop("2"))
    await cache.request_poll(REPOSITORY)
    after = await commit_of(cache, "latest", second)
    assert await shown(cache, after) == {"big-web": "2"}
    assert await shown(cache, before) == {"big-web": "1"}
    folders = ["app", "other", "absent"]
    trees = [await cache.trees(REPOSITORY, sha, folders) for sha in (before, after)]
    assert trees[0]["app"] != trees[1]["app"]
    assert trees[0]["other"] == trees[1]["other"] is not None
    assert trees[0]["absent"] is trees[1]["absent"] is None


async def test_digests_and_ranges_select_artifacts(cache: GitCache, registry: Registry) -> None:
    digests = {
        tag: push(registry, "team/versions", tag, shop(tag))
        for tag in ("1.0.0", "v1.2.0", "2.0.0-rc.1", "latest")
    }
    refs = (digests["1.0.0"], "^1.0", ">=1 <9", "1.0.0", "3.*", "gone")
    cache.follow(artifacts(registry, "team/versions", *refs))
    pinned = await commit_of(cache, digests["1.0.0"], digests["1.0.0"])
    assert await commit_of(cache, "1.0.0", digests["1.0.0"]) == pinned
    newest = await commit_of(cache, "^1.0", digests["v1.2.0"])
    assert await commit_of(cache, ">=1 <9", digests["v1.2.0"]) == newest
    assert await shown(cache, newest) == {"big-web": "v1.2.0"}
    state = await until(cache, lambda s: s.missing)
    assert state.missing == {"3.*", "gone"} and state.error is None
    push(registry, "team/versions", "1.0.0", shop("moved"))
    later = push(registry, "team/versions", "1.3.0", shop("1.3.0"))
    await cache.request_poll(REPOSITORY)
    await commit_of(cache, "^1.0", later)
    state = cache.state(REPOSITORY)
    assert state is not None and state.commits[digests["1.0.0"]].sha == pinned


async def test_equal_artifacts_are_one_commit_on_every_replica_and_for_every_tag(
    stand: Stand, registry: Registry, tmp_path: Path
) -> None:
    digest = push(registry, "team/same", "a", shop("1"))
    assert push(registry, "team/same", "b", shop("1")) == digest
    cache = await stand.start()
    cache.follow(artifacts(registry, "team/same", "a", "b"))
    sha = await commit_of(cache, "a", digest)
    assert await commit_of(cache, "b", digest) == sha and len(sha) == 64
    other = Stand(tmp_path / "other")
    try:
        fresh = await other.start()
        fresh.follow(artifacts(registry, "team/same", "b"))
        assert await commit_of(fresh, "b", digest) == sha
        # A commit of no ref is found by its id if this replica saw it, and refused otherwise.
        push(registry, "team/same", "b", shop("2"))
        await fresh.request_poll(REPOSITORY)
        await until(fresh, lambda s: "b" in s.commits and s.commits["b"].sha != sha)
        assert await shown(fresh, sha) == {"big-web": "1"}
        with pytest.raises(Unavailable, match="is the artifact of commit 000000000000"):
            await shown(fresh, "0" * 64)
    finally:
        await other.close()


async def test_commits_survive_a_restart_and_a_lost_clone(stand: Stand, registry: Registry) -> None:
    first = push(registry, "team/kept", "latest", shop("1"))
    cache = await stand.start()
    cache.follow(artifacts(registry, "team/kept", "latest"))
    sha = await commit_of(cache, "latest", first)
    await stand.stop(cache)
    second = push(registry, "team/kept", "latest", shop("2"))
    (clone,) = (stand.folder / "repositories").glob("*.git")
    clone.rename(stand.folder / "lost")
    cache = await stand.start()
    cache.follow(artifacts(registry, "team/kept", "latest"))
    await commit_of(cache, "latest", second)
    assert await shown(cache, sha) == {"big-web": "1"}


async def test_a_damaged_clone_is_made_again(stand: Stand, registry: Registry) -> None:
    first = push(registry, "team/damaged", "latest", shop("1"))
    cache = await stand.start()
    cache.follow(artifacts(registry, "team/damaged", "latest"))
    await commit_of(cache, "latest", first)
    (clone,) = (stand.folder / "repositories").glob("*.git")
    (clone / "HEAD").write_text("broken")
    second = push(registry, "team/damaged", "latest", shop("2"))
    await cache.request_poll(REPOSITORY)
    assert await shown(cache, await commit_of(cache, "latest", second)) == {"big-web": "2"}


async def test_a_private_registry_needs_its_account(cache: GitCache, registry: Registry) -> None:
    digest = push(registry, "team/private", "latest", shop("1"))
    spec = artifacts(registry, "team/private", "latest", credentials=None)
    cache.follow(spec)
    state = await until(cache, lambda s: s.error)
    assert "requires credentials: add the registry as a repository" in (state.error or "")
    assert not state.reached and not state.commits
    cache.follow(replace(spec, credentials=GitCredentials(username=USER, password=PASSWORD)))
    await commit_of(cache, "latest", digest)


async def test_an_unused_repository_shows_whether_it_is_there(
    cache: GitCache, registry: Registry
) -> None:
    cache.follow(artifacts(registry, "team/unknown"))
    state = await until(cache, lambda s: s.error)
    assert "has no repository team/unknown: check the URL" in (state.error or "")
    push(registry, "team/unused", "1", shop("1"))
    cache.follow(artifacts(registry, "team/unused"))
    await until(cache, lambda s: s.reached and not s.error)


async def test_bad_artifacts_are_named_and_do_not_stop_others(
    cache: GitCache, registry: Registry
) -> None:
    good = push(registry, "team/bad", "good", shop("1"))
    hostile = push(registry, "team/bad", "hostile", {"../../escape.yaml": "x"})
    cache.follow(artifacts(registry, "team/bad", "good", "hostile"))
    sha = await commit_of(cache, "good", good)
    state = await until(cache, lambda s: s.error)
    assert f"@{hostile}: the artifact has the path '../../escape.yaml'" in (state.error or "")
    assert state.commits.keys() == {"good"}
    assert await shown(cache, sha) == {"big-web": "1"}
    fixed = push(registry, "team/bad", "hostile", shop("2"))
    await cache.request_poll(REPOSITORY)
    await commit_of(cache, "hostile", fixed)
    # The last good commit of a tag stays while its newest artifact is bad.
    image = registry.push("team/bad", "good", NOW, index=True)
    await cache.request_poll(REPOSITORY)
    state = await until(cache, lambda s: s.error and image in s.error)
    assert "index of several platforms" in (state.error or "")
    assert state.commits["good"].sha == sha
    again = push(registry, "team/bad", "good", shop("3"))
    await cache.request_poll(REPOSITORY)
    await commit_of(cache, "good", again)
    assert (await until(cache, lambda s: not s.error)).missing == frozenset()


async def test_too_large_artifacts_are_refused_before_their_download(
    cache: GitCache, registry: Registry
) -> None:
    layer = {"mediaType": FLUX}
    registry.store("team/large", "latest", [(layer, bytes(33 << 20))], FLUX_CONFIG)
    cache.follow(artifacts(registry, "team/large", "latest"))
    state = await until(cache, lambda s: s.error)
    assert "the artifact has 34,603,008 bytes; the limit is 33,554,432" in (state.error or "")


async def test_pointers_of_git_lfs_stay_as_they_are(cache: GitCache, registry: Registry) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'1' * 64}\nsize 9\n"
    digest = push(registry, "team/lfs", "latest", {"data.txt": pointer})
    cache.follow(artifacts(registry, "team/lfs", "latest"))
    sha = await commit_of(cache, "latest", digest)
    assert await cache.files(REPOSITORY, sha, "", [".txt"]) == {"data.txt": pointer.encode()}


async def test_a_rule_about_signatures_holds_for_artifacts(
    cache: GitCache, registry: Registry
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    unsigned = push(registry, "team/signed", "1", shop("1"))
    foreign = push(registry, "team/signed", "2", shop("2"))
    signed = push(registry, "team/signed", "3", shop("3"))
    sign(registry, "team/signed", foreign, ec.generate_private_key(ec.SECP256R1()))
    sign(registry, "team/signed", signed, key)
    cache.follow(artifacts(registry, "team/signed", "1", "2", "3"))
    url = f"oci://{registry.host}/team/signed"
    rules = (SignatureRule(url, signed_by=(signer_set(key),)),)

    async def render(tag: str, digest: str, given: tuple[SignatureRule, ...]) -> Any:
        sha = await commit_of(cache, tag, digest)
        request = RenderRequest(REPOSITORY, sha, "app", signatures=SignatureRules(given))
        return (await cache.render(request)).attestation

    for tag, digest, reason in (
        ("1", unsigned, "it is not signed"),
        ("2", foreign, "the signer is not allowed"),
    ):
        with pytest.raises(Invalid, match=reason) as refused:
            await render(tag, digest, rules)
        assert f"artifact {url}@{digest}, app" in refused.value.message
        assert "shop-cosign (cosign key sha256:" in refused.value.message
    attestation = await render("3", signed, rules)
    (source,) = decode_statement(attestation.statement).sources
    assert (source.url, source.path, source.revision) == (url, "app", signed)
    # The agent checks its own rules with the same evidence.
    evidence = decode_evidence(attestation.evidence)
    assert check_signatures(rules, [source], evidence, NOW).keys() == {source}
    with pytest.raises(Invalid, match="no accepted signature"):
        check_signatures(rules, [replace(source, revision=unsigned)], evidence, NOW)
    # Without a rule, none is needed; and a rule about charts does not cover artifacts.
    assert await render("1", unsigned, ()) is not None
    with pytest.raises(Invalid, match="no source rule allows"):
        await render("3", signed, (replace(rules[0], charts=("*",)),))


async def test_the_render_tier_signs_only_listed_tags(stand: Stand, registry: Registry) -> None:
    url = f"oci://{registry.host}/team/listed"
    digest = push(registry, "team/listed", "prod", shop("1"))
    other = push(registry, "team/listed", "test", shop("2"))
    cache = await stand.start(signed=(f"{url}?ref=refs/tags/prod#app",))
    cache.follow(artifacts(registry, "team/listed", "prod", "test"))
    assert await shown(cache, await commit_of(cache, "prod", digest)) == {"big-web": "1"}
    sha = await commit_of(cache, "test", other)
    with pytest.raises(Invalid, match="is not part of refs/tags/prod"):
        await shown(cache, sha)


async def test_an_artifact_is_a_further_source_of_a_service(
    cache: GitCache, registry: Registry
) -> None:
    """Files of one artifact are mounted in the folder of another."""
    base = push(registry, "team/base", "1", shop("1"))
    top = push(
        registry, "team/top", "1", {"kustomization.yaml": "resources: [base]\nnamePrefix: t-\n"}
    )
    cache.follow(artifacts(registry, "team/top", "1"))
    more = replace(artifacts(registry, "team/base", "1"), id=RepositoryId("base"))
    cache.follow(more)
    sha = await commit_of(cache, "1", top)
    state = await until(cache, lambda s: s.commits, repository_id="base")
    source = SourceFolder(RepositoryId("base"), state.commits["1"].sha, "app", "base")
    assert state.commits["1"].subject.endswith(base)
    rendered = await cache.render(RenderRequest(REPOSITORY, sha, "", sources=(source,)))
    data = await cache.bundle(rendered.digest)
    assert orjson.loads(data.splitlines()[0])["metadata"]["name"] == "t-big-web"


class Oras:
    """The program, signed in at a registry."""

    def __init__(self, program: Path, registry: Registry, home: Path) -> None:
        self._program, self._registry, self._home = program, registry, home
        account = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        config = {"auths": {registry.host: {"auth": account}}}
        (home / "auth.json").write_text(json.dumps(config))

    def push(self, name: str, *files: str, folder: Path) -> str:
        """Pushes files and folders; returns the digest."""
        command = [self._program, "push", "--plain-http", "--format", "json"]
        command += ["--registry-config", self._home / "auth.json"]
        place = f"{self._registry.host}/{name}"
        done = subprocess.run(
            [*command, place, *files], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["digest"]


@pytest.fixture
def oras(registry: Registry, tmp_path: Path) -> Iterator[Oras]:
    program = find_oras()
    if program is None:
        pytest.skip("no ORAS on this machine: make servers builds it")
    yield Oras(program, registry, tmp_path)


@pytest.mark.parametrize(
    "form",
    ["folder", "files", "archive", "flux"],
)
async def test_artifacts_of_oras_are_rendered(
    cache: GitCache, registry: Registry, oras: Oras, tmp_path: Path, form: str
) -> None:
    place = tmp_path / "work"
    for path, text in shop(form).items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    (place / "artifact.tgz").write_bytes(packed(shop(form)))
    given = {
        "folder": ["app"],
        "files": ["app/kustomization.yaml", "app/map.yaml:application/yaml"],
        "archive": ["artifact.tgz:application/vnd.oci.image.layer.v1.tar+gzip"],
        "flux": [f"artifact.tgz:{FLUX}"],
    }
    digest = oras.push(f"oras/{form}:v1", *given[form], folder=place)
    cache.follow(artifacts(registry, f"oras/{form}", "v1"))
    assert await shown(cache, await commit_of(cache, "v1", digest)) == {"big-web": form}
