"""Folders for the files of workers that run as root."""

from pathlib import Path

import pytest

from gitcache.render.scratch_location import reachable_scratch


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A scratch folder in a data folder that is closed to others, as the server makes it."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    return data / "git" / "scratch"


def test_workers_of_root_have_a_place_that_others_reach(closed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    place = reachable_scratch(closed, run)
    assert place.parent == run and place.is_dir()
    assert reachable_scratch(closed, run) == place
    assert reachable_scratch(closed.with_name("other"), run) != place


def test_without_a_run_folder_it_stays_below_the_data(closed: Path, tmp_path: Path) -> None:
    assert reachable_scratch(closed, tmp_path / "none") == closed


def test_an_open_data_folder_is_used_as_it_is(tmp_path: Path) -> None:
    wanted = Path("/nowhere-at-all/git/scratch")
    assert reachable_scratch(wanted, tmp_path) == wanted
