"""Deciding what to render: digests, memos, references outside the folder, failures."""

import asyncio
from dataclasses import replace

import pytest

from core.errors import Invalid, Unavailable
from core.identity import RepositoryId
from core.spec.source import RenderRequest, RepositorySpec, SourceFolder
from gitcache.domain.renders import RenderInputError
from gitcache.ports import Decryptor
from gitcache.render.plan import CommitRoot
from gitcache.sync.render_groups import RenderGroups
from gitcache.sync.render_service import RenderPorts, RenderService
from tests.fakes.clock import FakeClock, settle
from tests.fakes.gitcache import (
    FakeCharts,
    FakeContent,
    FakeGit,
    FakeImages,
    FakeMemo,
    FakeWorkers,
    sha_of,
)

SPEC = RepositorySpec(RepositoryId("r"), "https://git.test/r", frozenset({"main"}))
ROOT = sha_of(1)
REQUEST = RenderRequest(SPEC.id, sha_of(2), "web")


class Room:
    """Renders with everything around them."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.git, self.content, self.memo = FakeGit(), FakeContent(), FakeMemo()
        self.workers, self.charts, self.clock = FakeWorkers(), FakeCharts(), FakeClock()
        self.git.tree(ROOT, files)
        self.restart()

    def restart(self, decryptor: Decryptor | None = None) -> None:
        """Forget what is only in memory."""
        self.renders = RenderService(
            RenderPorts(
                self.git,
                self.content,
                self.memo,
                self.workers,
                FakeCharts(),
                FakeImages(),
                decryptor,
            ),
            self.clock,
        )

    async def render(self, request: RenderRequest = REQUEST):
        return (await self.renders.render(SPEC, ROOT, request))[0]

    async def sources(self, request: RenderRequest = REQUEST) -> list[tuple[str, str]]:
        """The path and revision of each source that the render tier would sign."""
        _, statement, _ = await self.renders.render(SPEC, ROOT, request)
        return [(source.path, source.revision) for source in statement.sources]


PLAIN = {"web/a.yaml": b"a", "web/b.txt": b"b", "api/a.yaml": b"other"}
LAYERED = {
    "over/prod/kustomization.yaml": b"prod",
    "base/kustomization.yaml": b"base",
    "common/x.yaml": b"common",
    "other/x.yaml": b"other",
}


async def test_only_manifests_of_the_folder_reach_a_worker() -> None:
    room = Room(PLAIN)
    rendered = await room.render()
    assert room.workers.jobs[0].files == {"web/a.yaml": b"a"}
    assert rendered.reads == ("web",) and not rendered.cached


async def test_the_same_inputs_never_render_again_even_after_a_restart() -> None:
    room = Room(PLAIN)
    first = await room.render()
    room.restart()
    second = await room.render(replace(REQUEST, commit=sha_of(3)))
    assert second == replace(first, cached=True)
    assert len(room.workers.jobs) == 1


async def test_a_statement_names_the_commit_of_its_own_request() -> None:
    """Also if the render of another commit with the same files is taken."""
    room = Room(PLAIN)
    assert await room.sources() == [("web", REQUEST.commit)]
    assert await room.sources(replace(REQUEST, commit=sha_of(3))) == [("web", sha_of(3))]
    assert len(room.workers.jobs) == 1


async def test_many_who_ask_at_once_share_one_render() -> None:
    room = Room(PLAIN)
    room.workers.gate.clear()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(room.render()) for _ in range(50)]
        await room.workers.started.wait()
        room.workers.gate.set()
    assert len({task.result().digest for task in tasks}) == 1
    assert len(room.workers.jobs) == 1


async def test_a_waiting_render_takes_over_from_a_cancelled_one() -> None:
    room = Room(PLAIN)
    room.workers.gate.clear()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(room.render())
        await room.workers.started.wait()
        second = group.create_task(room.render())
        await asyncio.sleep(0)
        first.cancel()
        room.workers.gate.set()
    assert second.result().count == 1


async def test_a_lost_bundle_is_rendered_again() -> None:
    room = Room(PLAIN)
    first = await room.render()
    room.content.kept.clear()
    again = await room.render()
    assert again.digest == first.digest and not again.cached
    assert room.content.kept


async def test_a_missing_folder_is_an_error_and_never_empty() -> None:
    room = Room(PLAIN)
    with pytest.raises(Invalid, match="folder 'gone' is not in commit"):
        await room.render(replace(REQUEST, folder="gone"))
    with pytest.raises(Invalid, match="is not in commit"):
        await room.render(replace(REQUEST, folder="web/a.yaml"))
    assert room.workers.jobs == []


async def test_a_failure_is_remembered_briefly() -> None:
    room = Room(PLAIN)
    room.workers.failure = Invalid("web/a.yaml, line 1: broken")
    for _ in range(10):
        with pytest.raises(Invalid, match="line 1"):
            await room.render()
    assert len(room.workers.jobs) == 1
    await room.clock.advance(6)
    room.workers.failure = None
    assert (await room.render()).count == 1


async def test_a_full_disk_fails_the_render_and_is_not_memoised() -> None:
    room = Room(PLAIN)
    room.content.broken = True
    with pytest.raises(Unavailable, match="disk"):
        await room.render()
    assert not any("digest" in memo for memo in room.memo.kept.values())
    room.content.broken = False
    assert not (await room.render()).cached


HANDLE = ["cluster", "handle"]


def for_cluster(number: int, groups: int = 3) -> RenderRequest:
    """A templated request of one of many clusters, which fall into groups by their tier."""
    cluster = {"handle": f"c{number}", "tags": {"tier": f"t{number % groups}"}}
    return replace(REQUEST, templated=True, parameters={"cluster": cluster})


async def test_parameters_that_nothing_reads_make_no_difference() -> None:
    room = Room(PLAIN)
    first, second = [await room.render(for_cluster(n)) for n in (1, 2)]
    assert first.source == second.source and len(room.workers.jobs) == 1


async def test_parameters_that_are_read_make_a_difference() -> None:
    room = Room(PLAIN)
    room.workers.reads = [HANDLE]
    first, second = [await room.render(for_cluster(n)) for n in (1, 2)]
    assert first.source != second.source and first.digest != second.digest


async def test_clusters_that_ask_at_once_get_their_own_values() -> None:
    """They wait for the first one, whose result is not theirs."""
    room = Room(PLAIN)
    room.workers.reads = [HANDLE]
    room.workers.gate.clear()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(room.render(for_cluster(n))) for n in range(3)]
        await room.workers.started.wait()
        await settle()
        room.workers.gate.set()
    assert len({task.result().digest for task in tasks}) == len(room.workers.jobs) == 3
    for number, task in enumerate(tasks):
        assert await room.render(for_cluster(number)) == replace(task.result(), cached=True)


async def test_a_thousand_clusters_in_three_groups_cost_three_renders() -> None:
    room = Room(PLAIN)
    room.workers.reads = [["cluster", "tags", "tier"]]
    done = await asyncio.gather(*(room.render(for_cluster(n)) for n in range(1000)))
    assert len(room.workers.jobs) == 3
    assert len({one.digest for one in done}) == 3
    assert [one.digest for one in done[:3]] * 333 == [one.digest for one in done[:999]]


async def test_groups_are_known_after_a_restart() -> None:
    room = Room(PLAIN)
    room.workers.reads = [["cluster", "tags"]]
    await room.render(for_cluster(1))
    room.restart()
    assert (await room.render(for_cluster(4))).cached
    assert not (await room.render(for_cluster(2))).cached


async def test_the_memo_key_follows_the_parameters_read() -> None:
    room = Room(PLAIN)
    room.workers.reads = [["cluster", "tags", "tier"]]
    small = await room.render(for_cluster(0))
    room.workers.reads = [["cluster", "tags", "tier"], HANDLE]
    one, other = await room.render(for_cluster(1)), await room.render(for_cluster(4))
    assert one.digest != other.digest
    assert (await room.render(for_cluster(3))) == replace(small, cached=True)
    assert len(room.workers.jobs) == 3


async def test_the_failure_of_one_group_is_not_that_of_another() -> None:
    room = Room(PLAIN)
    room.workers.failure = RenderInputError("web/a.yaml: undefined", [["cluster", "tags", "tier"]])
    room.workers.gate.clear()
    tasks = [asyncio.ensure_future(room.render(for_cluster(n))) for n in (0, 3, 1)]
    await room.workers.started.wait()
    room.workers.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, Invalid) for one in results)
    assert len(room.workers.jobs) == 2
    room.workers.failure = None
    room.workers.reads = [["cluster", "tags", "tier"]]
    assert (await room.render(for_cluster(2))).count == 1
    with pytest.raises(Invalid, match="undefined"):
        await room.render(for_cluster(6))


async def test_bases_outside_the_folder_are_read_and_change_the_digest() -> None:
    room = Room(LAYERED)
    room.workers.named = {b"prod": ["../../base"], b"base": ["../common", "x.yaml"]}
    request = replace(REQUEST, folder="over/prod")
    first = await room.render(request)
    assert first.reads == ("over/prod", "base", "common")
    assert set(room.workers.jobs[0].files) == set(LAYERED) - {"other/x.yaml"}
    room.git.tree(ROOT, {**LAYERED, "other/x.yaml": b"changed"})
    assert (await room.render(request)).cached
    room.git.tree(ROOT, {**LAYERED, "common/x.yaml": b"changed"})
    changed = await room.render(request)
    assert changed.source != first.source and not changed.cached


async def test_references_are_scanned_once_per_tree() -> None:
    room = Room(LAYERED)
    room.workers.named = {b"prod": ["../../base"]}
    request = replace(REQUEST, folder="over/prod")
    await room.render(request)
    room.restart()
    await room.render(request)
    assert len(room.workers.scans) == 2


async def test_a_reference_that_leaves_the_repository_is_refused() -> None:
    room = Room(LAYERED)
    room.workers.named = {b"prod": ["../../../outside"]}
    with pytest.raises(Invalid, match="leaves the repository"):
        await room.render(replace(REQUEST, folder="over/prod"))


@pytest.mark.parametrize("path", ["..", "../other", "../../x", "/etc", "a/../../b"])
async def test_another_source_stays_in_the_folder_of_the_service(path: str) -> None:
    room = Room(PLAIN)
    source = SourceFolder(SPEC.id, REQUEST.commit, "api", path)
    with pytest.raises(Invalid, match="leaves the service's folder"):
        await room.renders.render(SPEC, ROOT, REQUEST, [(CommitRoot(SPEC, ROOT), source)])


async def test_two_sources_with_one_file_are_refused() -> None:
    room = Room({"web/a.yaml": b"a", "api/a.yaml": b"b"})
    source = SourceFolder(SPEC.id, REQUEST.commit, "api", "")
    with pytest.raises(Invalid, match=r"web/a\.yaml comes from two sources"):
        await room.renders.render(SPEC, ROOT, REQUEST, [(CommitRoot(SPEC, ROOT), source)])


async def test_a_folder_with_more_references_than_the_limit_is_refused() -> None:
    bases = {f"base{number}/kustomization.yaml": b"b%d" % number for number in range(300)}
    room = Room({"web/kustomization.yaml": b"web", **bases})
    room.workers.named = {b"web": [f"../base{number}" for number in range(300)]}
    with pytest.raises(Invalid, match="more than 256 other folders"):
        await room.render()


async def test_another_version_of_the_tool_renders_anew() -> None:
    room = Room(LAYERED)
    request = replace(REQUEST, folder="base")
    first = await room.render(request)
    room.workers.tools["kustomize"] = "kustomize v6"
    assert (await room.render(request)).source != first.source


async def test_auto_looks_for_a_kustomization_and_a_choice_is_kept() -> None:
    room = Room({"web/kustomization.yaml": b"k", "web/a.yaml": b"a"})
    await room.render()
    await room.render(replace(REQUEST, renderer="raw"))
    assert [job.renderer for job in room.workers.jobs] == ["kustomize", "raw"]


@pytest.mark.parametrize(
    ("file", "templated", "renderer"),
    [
        ("kustomization.yaml.liquid", True, "kustomize"),
        ("kustomization.yaml.liquid", False, "raw"),
        ("Chart.yaml.liquid", True, "raw"),
        ("Chart.yaml", True, "helm"),
    ],
)
async def test_auto_looks_for_templates_of_renderers_that_have_none_of_their_own(
    file: str, templated: bool, renderer: str
) -> None:
    room = Room({f"web/{file}": b"k", "web/a.yaml": b"a"})
    await room.render(replace(REQUEST, templated=templated))
    assert [job.renderer for job in room.workers.jobs] == [renderer]


async def test_read_parameters_are_known_in_a_bounded_number_of_sets() -> None:
    """A template that reads others for each cluster would make each lookup longer."""
    groups = RenderGroups(FakeMemo())
    for number in range(20):
        await groups.store_reads("inputs", [["cluster", f"tag{number}"]])
    digests = await groups.input_digests("inputs", {})
    assert len(digests) <= 9
    unread = await groups.input_digests("others", {})
    assert len(unread) == 1 and len(set(digests)) == len(digests)


@pytest.mark.parametrize("path", ["..", "../other", "/etc"])
async def test_a_kustomize_path_stays_in_the_folder(path: str) -> None:
    with pytest.raises(Invalid, match="kustomizePath"):
        await Room(PLAIN).render(replace(REQUEST, kustomize_path=path))


async def test_a_folder_that_moves_with_equal_content_keeps_its_digest() -> None:
    room = Room({"a/x.yaml": b"x", "b/x.yaml": b"x"})
    first = await room.render(replace(REQUEST, folder="a"))
    second = await room.render(replace(REQUEST, folder="b"))
    assert first.source == second.source and second.cached


class Boxes:
    """Opens what begins with `box:` for the repositories whose keys it has."""

    def __init__(self, **keys: str) -> None:
        self.names = keys

    def key_fingerprint(self, spec: RepositorySpec) -> str:
        return self.names.get(spec.id, "")

    def is_encrypted(self, path: str, data: bytes) -> bool:
        return data.startswith(b"box:")

    async def decrypt(self, spec: RepositorySpec, path: str, data: bytes) -> bytes:
        if not self.key_fingerprint(spec):
            raise Invalid(f"{path} is encrypted, and no key of this repository opens it")
        return data.removeprefix(b"box:")


SEALED = {"web/a.yaml": b"a", "web/s.yaml": b"box:secret"}


async def test_encrypted_files_reach_a_worker_in_the_clear() -> None:
    room = Room(SEALED)
    room.restart(Boxes(r="mine"))
    await room.render()
    assert room.workers.jobs[0].files == {"web/a.yaml": b"a", "web/s.yaml": b"secret"}


async def test_decrypted_renders_are_not_shared_between_repositories() -> None:
    """Both hold the same encrypted file; only one of them may have it opened."""
    room = Room(SEALED)
    room.restart(Boxes(r="mine"))
    await room.render()
    other = replace(SPEC, id=RepositoryId("other"))
    with pytest.raises(Invalid, match=r"web/s\.yaml is encrypted"):
        await room.renders.render(other, ROOT, replace(REQUEST, repository_id=other.id))


async def test_without_keys_a_render_keeps_the_digest_that_it_had() -> None:
    room = Room(PLAIN)
    before = await room.render()
    room.restart(Boxes())
    assert await room.render() == replace(before, cached=True)
