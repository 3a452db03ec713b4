"""Lists of an installation that has nothing yet: a sentence, not silence."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.command_line import Finished, Leaf, leaves, run_in_process
from tests.fakes.empty_control_plane import empty_control_plane

LISTS = [
    leaf
    for leaf in leaves()
    if leaf.words[-1] == "list" and not any(one.required for one in leaf.command.params)
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with empty_control_plane() as url:
        yield url


@pytest.fixture
def run(
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Callable[..., Finished]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("TOWLINE_URL", url)
    monkeypatch.setenv("TOWLINE_TOKEN", "a-token")
    return lambda *words: run_in_process(words, monkeypatch, capfd)


def test_there_are_lists() -> None:
    assert len(LISTS) > 15


@pytest.mark.parametrize("leaf", LISTS, ids=lambda leaf: " ".join(leaf.words))
def test_an_empty_list_is_a_sentence_for_people_and_a_list_for_programs(
    run: Callable[..., Finished], leaf: Leaf
) -> None:
    assert run(*leaf.words) == Finished(0, "", "nothing found\n")
    assert run(*leaf.words, "-o", "json") == Finished(0, "[]\n", "")
