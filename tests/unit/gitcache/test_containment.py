"""Memory limit of git in a container."""

from pathlib import Path

import pytest

from gitcache.compose import git_memory
from gitcache.mirror.cgroup_memory import container_memory
from gitcache.settings import FetchSettings

MI = 1 << 20


def put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n")


@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        ("0::/", {"memory.max": str(512 * MI)}, 512 * MI),
        ("0::/", {"memory.max": "max"}, None),
        ("0::/pod/box", {"pod/memory.max": "1000", "pod/box/memory.max": "max"}, 1000),
        ("0::/pod/box", {"pod/memory.max": "1000", "pod/box/memory.max": "2000"}, 1000),
        ("0::/../../other", {"memory.max": "1000"}, 1000),
        (
            "4:cpu,memory:/kubepods/box\n0::/",
            {"memory/memory.limit_in_bytes": "1000"},
            1000,
        ),
        ("4:memory:/", {"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("4:cpu:/", {"memory.max": "1000"}, None),
    ],
)
def test_the_lowest_limit_on_the_way_up_counts(
    own: str, files: dict[str, str], limit: int | None, tmp_path: Path
) -> None:
    put(tmp_path / "groups", files)
    put(tmp_path, {"own": own})
    assert container_memory(tmp_path / "groups", tmp_path / "own") == limit


def test_without_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert container_memory(tmp_path, tmp_path / "own") is None


def test_git_has_half_of_its_container_unless_the_settings_say_how_much() -> None:
    assert git_memory(FetchSettings(), 512 * MI) == 256 * MI
    assert git_memory(FetchSettings(), 64 << 30) == 2 << 30
    assert git_memory(FetchSettings(), None) == 2 << 30
    assert git_memory(FetchSettings(memory=1 << 30), 512 * MI) == 1 << 30
