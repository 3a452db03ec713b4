"""Listing folders of a commit, and keeping bundles that come from no repository."""

import pytest

from core.errors import Invalid
from core.spec.bundle import make_bundle
from gitcache.sync.cache import GitCache
from tests.integration.gitcache.manifests import config_map
from tests.integration.gitcache.stand import REPOSITORY, at_commit, spec
from towline.demo.git_server import GitServer

FILES = {
    "apps/web/a.yaml": config_map("a"),
    "apps/api/deep/b.yaml": config_map("b"),
    "apps/readme": "x",
    "other/c.yaml": config_map("c"),
}


async def test_folders_are_listed_as_deep_as_asked_for(
    git_server: GitServer, cache: GitCache
) -> None:
    repository = git_server.create_repository("shop")
    commit = repository.commit(FILES)
    cache.follow(spec(repository.url))
    await at_commit(cache, commit)
    assert sorted(await cache.folders(REPOSITORY, commit, "", 1)) == ["apps", "other"]
    assert sorted(await cache.folders(REPOSITORY, commit, "apps", 1)) == ["apps/api", "apps/web"]
    assert "apps/api/deep" in await cache.folders(REPOSITORY, commit, "apps", 2)


async def test_a_base_that_is_gone_is_an_error_and_not_an_empty_list(
    git_server: GitServer, cache: GitCache
) -> None:
    """An empty list would delete the services generated from folders."""
    repository = git_server.create_repository("shop")
    commit = repository.commit(FILES)
    cache.follow(spec(repository.url))
    await at_commit(cache, commit)
    for base in ("nope", "apps/readme", "../x"):
        with pytest.raises(Invalid):
            await cache.folders(REPOSITORY, commit, base, 1)


async def test_a_bundle_from_no_repository_is_kept_and_attested(cache: GitCache) -> None:
    bundle = make_bundle([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}])
    kept = await cache.store_bundle(bundle.data)
    assert (kept.digest, kept.count, kept.size) == (bundle.digest, 1, len(bundle.data))
    assert kept.attestation is not None
    assert await cache.bundle(kept.digest) == bundle.data


async def test_the_files_of_a_folder_are_read_at_a_commit(
    git_server: GitServer, cache: GitCache
) -> None:
    repository = git_server.create_repository("shop")
    commit = repository.commit(FILES | {"apps/.git-hooks/c.yaml": "x", "apps/web/z.yml": "z"})
    cache.follow(spec(repository.url))
    await at_commit(cache, commit)
    found = await cache.files(REPOSITORY, commit, "apps", [".yaml", ".yml"])
    assert list(found) == ["apps/api/deep/b.yaml", "apps/web/a.yaml", "apps/web/z.yml"]
    assert found["apps/web/z.yml"] == b"z"


async def test_files_of_a_missing_folder_are_an_error_and_not_empty(
    git_server: GitServer, cache: GitCache
) -> None:
    """Without files, a configuration source would delete everything."""
    repository = git_server.create_repository("shop")
    commit = repository.commit(FILES)
    cache.follow(spec(repository.url))
    await at_commit(cache, commit)
    for folder in ("nope", "apps/readme", "../x"):
        with pytest.raises(Invalid):
            await cache.files(REPOSITORY, commit, folder, [".yaml"])


async def test_more_bytes_than_the_limit_are_refused(
    git_server: GitServer, cache: GitCache
) -> None:
    repository = git_server.create_repository("shop")
    commit = repository.commit({f"{n}.yaml": "x" * (1 << 20) for n in range(9)})
    cache.follow(spec(repository.url))
    await at_commit(cache, commit)
    with pytest.raises(Invalid, match="bytes of files"):
        await cache.files(REPOSITORY, commit, "", [".yaml"])
