"""Comparison of pictures: tolerant of text, strict about layout, theme and content."""

import random
from collections.abc import Callable
from io import BytesIO

import pytest
from PIL import Image

from tests.integration.console.pictures import MAX_SHARE, TILE, Tiles

COLUMNS, ROWS = 64, 40
LINES = range(8, 24, 2)
Paint = Callable[[int, int], int]


def page(column: int, row: int) -> int:
    """Brightness of a tile of a page with a navigation, a title and a list of eight lines."""
    if column < 10:
        return 215 if row in range(3, 30, 2) and column > 1 else 255
    if row == 1 and column < 20:
        return 190
    return 222 if row in LINES and 12 <= column < 60 and column % 12 < 6 else 245


def picture(paint: Paint, noise: int = 0, seed: int = 0, width: int = COLUMNS) -> Tiles:
    """A picture whose text is a little darker or lighter in each tile."""
    chance = random.Random(seed)
    tiles = [(column, row) for row in range(ROWS) for column in range(width)]
    greys = [paint(*tile) + chance.randint(-noise, noise) for tile in tiles]
    means = Image.frombytes("L", (width, ROWS), bytes(max(0, min(255, grey)) for grey in greys))
    return Tiles((width * TILE, ROWS * TILE), means.convert("RGB"))


def plain(colour: str) -> bytes:
    """A file with a picture of one tile and one colour."""
    file = BytesIO()
    Image.new("RGB", (TILE, TILE), colour).save(file, "PNG")
    return file.getvalue()


def test_other_text_and_fonts_are_equal() -> None:
    """Ids, ages and another rasterizer of fonts change the mean colours of tiles little."""
    assert picture(page, noise=5, seed=1).difference(picture(page, noise=5, seed=2)) == 0


def test_one_longer_word_is_equal() -> None:
    def longer(column: int, row: int) -> int:
        return 222 if row == 8 and column in range(18, 24) else page(column, row)

    assert 0 < picture(page).difference(picture(longer)) <= MAX_SHARE


def test_a_banner_of_one_line_is_equal_at_most_in_part() -> None:
    """A bar through the content is a difference, although it covers only one line."""

    def banner(column: int, row: int) -> int:
        return 200 if row == 4 and column >= 10 else page(column, row)

    assert picture(page).difference(picture(banner)) > MAX_SHARE


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda column, row: 255 - page(column, row), id="dark theme"),
        pytest.param(lambda _column, _row: 245, id="blank page"),
        pytest.param(
            lambda column, row: 222 if column < 8 and row % 2 else 255, id="no style sheet"
        ),
        pytest.param(
            lambda column, row: 245 if row in LINES and column >= 10 else page(column, row),
            id="empty list",
        ),
        pytest.param(lambda column, row: page(column, row - 1), id="moved by a line"),
        pytest.param(lambda column, row: page(column + 10, row), id="no navigation"),
    ],
)
def test_broken_screens_differ(broken: Paint) -> None:
    whole = picture(page, noise=3, seed=1)
    assert whole.difference(picture(broken, noise=3, seed=2)) > MAX_SHARE


def test_another_size_differs_completely() -> None:
    assert picture(page).difference(picture(page, width=COLUMNS - 1)) == 1


def test_a_colour_alone_makes_a_difference() -> None:
    """A red mark instead of a green one of the same brightness counts."""
    green, red = Tiles.of(plain("rgb(47, 148, 84)")), Tiles.of(plain("rgb(148, 60, 84)"))
    assert green.difference(green) == 0
    assert green.difference(red) == 1
