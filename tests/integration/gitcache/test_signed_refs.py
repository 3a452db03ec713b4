"""Only commits of listed branches and tags are signed, whatever else a server sends."""

import pytest

from core.errors import Invalid
from core.spec.source import RenderRequest
from gitcache.sync.cache import GitCache
from tests.integration.gitcache.stand import REPOSITORY, Stand, at_commit, spec
from towline.demo.git_server import GitServer, ServedRepository

MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n"


@pytest.fixture
def shop(git_server: GitServer) -> ServedRepository:
    return git_server.create_repository("shop")


def commit(shop: ServedRepository, number: int, branch: str = "main") -> str:
    return shop.commit({"app/map.yaml": f"{MAP}data: {{n: '{number}'}}\n"}, branch=branch)


async def sign(cache: GitCache, id: str) -> None:
    """Renders a commit, with a signature."""
    rendered = await cache.render(RenderRequest(REPOSITORY, id, "app"))
    assert rendered.attestation is not None


async def test_commits_of_a_listed_branch_cost_one_fetch_each(
    stand: Stand, shop: ServedRepository, git_server: GitServer
) -> None:
    """The poll that finds a commit proves its branch."""
    cache = await stand.start(signed=(f"{shop.url}?ref=main",))
    cache.follow(spec(shop.url))
    packs = []
    for number in range(4):
        id = commit(shop, number)
        await cache.request_poll(REPOSITORY, {"refs/heads/main": id})
        await at_commit(cache, id)
        await sign(cache, id)
        packs.append(len(git_server.packs))
    first = packs[0]
    assert packs == [first, first + 1, first + 2, first + 3]


async def test_other_commits_of_a_listed_source_are_not_signed(
    stand: Stand, shop: ServedRepository
) -> None:
    """Branches, pull requests of forks, and commits that a branch no longer has."""
    main = commit(shop, 0)
    shop.point("refs/heads/feature", main)
    shop.point("refs/heads/lost", main)
    others = [commit(shop, 1, branch="feature"), commit(shop, 2, branch="lost")]
    shop.point("refs/pull/1/head", others[1])
    shop.delete("refs/heads/lost")
    cache = await stand.start(signed=(f"{shop.url}?ref=main", f"{shop.url}?ref=release/*"))
    cache.follow(spec(shop.url, "main", "feature", "refs/pull/1/head"))
    await at_commit(cache, others[0], "feature")
    for id in others:
        with pytest.raises(Invalid, match=f"commit {id[:12]} .* not part of main, release/\\*"):
            await sign(cache, id)
    await sign(cache, main)


@pytest.mark.parametrize("pattern", ["main", "release/*", "refs/tags/v*"])
async def test_earlier_commits_of_a_listed_ref_are_signed_after_a_look_at_its_history(
    stand: Stand, shop: ServedRepository, git_server: GitServer, pattern: str
) -> None:
    """One more pack for each such commit, without folders and files."""
    first = commit(shop, 0)
    tip = [commit(shop, number) for number in (1, 2)][-1]
    shop.point("refs/heads/release/1", tip)
    shop.point("refs/tags/v1", tip)
    shop.point("refs/heads/other", first)
    cache = await stand.start(signed=(f"{shop.url}?ref={pattern}",))
    cache.follow(spec(shop.url, "other", first))
    await at_commit(cache, first, "other")
    before = len(git_server.packs)
    for _ in range(3):
        await sign(cache, first)
    assert len(git_server.packs) == before + 1


async def test_without_a_ref_any_commit_is_signed(stand: Stand, shop: ServedRepository) -> None:
    commit(shop, 0)
    other = commit(shop, 1, branch="feature")
    cache = await stand.start(signed=(f"{shop.url}?ref=main", f"{shop.url}#app"))
    cache.follow(spec(shop.url, "feature"))
    await at_commit(cache, other, "feature")
    await sign(cache, other)
