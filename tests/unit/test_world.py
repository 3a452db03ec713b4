"""The page with the results of `make world`."""

import pytest

from tests.world.page import PAGE, PARTS, replaced


@pytest.mark.parametrize("part", PARTS)
def test_each_part_has_its_place_on_the_page(part: str) -> None:
    page = PAGE.read_text()
    written = replaced(page, part, "| a |")
    assert f"<!-- world: {part} -->\n\n| a |\n\n<!-- end -->" in written
    assert replaced(written, part, "| b |").count("| a |") == page.count("| a |")


def test_a_part_without_a_place_is_named() -> None:
    with pytest.raises(AssertionError, match="no place for other"):
        replaced(PAGE.read_text(), "other", "")
