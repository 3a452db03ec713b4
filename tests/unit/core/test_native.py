"""The guard against a native module that was built from other sources."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.errors import Unavailable
from core.native import INTERFACE, check_interface, describe_data_link_versions

SOURCE = Path(__file__).parents[3] / "proxy/native/src/python.rs"


@pytest.mark.parametrize(
    "module", [SimpleNamespace(), SimpleNamespace(INTERFACE=INTERFACE - 1)], ids=["none", "older"]
)
def test_a_module_of_other_sources_is_refused(module: object) -> None:
    """With the command that builds it again."""
    with pytest.raises(Unavailable, match=f"needs {INTERFACE}; run make setup"):
        check_interface(module)


def test_a_module_of_these_sources_is_used() -> None:
    check_interface(SimpleNamespace(INTERFACE=INTERFACE))


def test_both_languages_name_the_same_interface() -> None:
    (number,) = re.findall(r"const INTERFACE: u32 = (\d+);", SOURCE.read_text())
    assert int(number) == INTERFACE


@pytest.mark.parametrize("versions", [(1, 1), (0, 1), (1, 0)], ids=["same", "none", "no agent's"])
def test_ends_that_open_a_data_link_or_none_have_nothing_to_say(versions: tuple[int, int]) -> None:
    assert not describe_data_link_versions(*versions)


def test_ends_of_other_versions_name_both_and_what_to_do() -> None:
    text = describe_data_link_versions(3, 2)
    assert "control plane has version 3" in text and "agent version 2" in text
    assert "run the same release of both" in text
