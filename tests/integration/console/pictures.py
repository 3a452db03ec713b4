"""Pictures of screens: taking them, keeping them as documentation, and comparing them with it.

A picture is compared by the mean colours of its tiles. Another version of the browser, other ids
and other times change these colours little; a missing style sheet, another theme, a broken layout
or an empty list change many of them.
"""

import base64
import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Literal, Self

from PIL import Image, ImageChops
from playwright.sync_api import CDPSession, Page, ViewportSize

from tests.integration.console.conftest import ARTEFACTS, ROOT
from tests.integration.console.page_checks import PAINTED

FOLDER = ROOT / "docs" / "images" / "screens"
FONTS = Path(__file__).parent / "picture_fonts.json"
ENOUGH_BYTES = 25_000
"""Size of a picture above which a lower quality is tried."""
SCALE = 0.75
"""Size of a picture in proportion to the window: small, but legible."""
TILE = 15
"""Side of a tile in pixels of a picture: a line of text."""
TOLERANCE = 12
"""Maximum difference of a colour channel between two tiles that count as equal."""
MAX_SHARE = 0.015
"""Maximum share of different tiles between two pictures that count as equal."""
IS_WRITING = os.environ.get("PICTURES") == "write"
_REWRITE_SHARE = 0.002
_QUALITIES = (60, 40, 25)
_SECONDS = 6.0
_BETWEEN_MS = 300
_PATIENT_PROBLEMS = 5
_MAX_TEXT = 2000
_MEASURE = """() => Object.fromEntries(["system-ui", "ui-monospace, monospace"].map((family) => {
  const context = new OffscreenCanvas(1, 1).getContext("2d");
  context.font = `100px ${family}`;
  return [family, Math.round(context.measureText("Quiz 0189 WAVE → ✓").width)];
}))"""
_FREEZE = (Path(__file__).parent / "freeze.js").read_text()


@dataclass(frozen=True, slots=True)
class View:
    """A size of the window and a theme."""

    name: str
    size: ViewportSize
    theme: Literal["light", "dark"]

    def show(self, page: Page) -> None:
        """Gives the page this size and theme."""
        if page.viewport_size != self.size:
            page.set_viewport_size(self.size)
        page.emulate_media(color_scheme=self.theme, reduced_motion="reduce")


LIGHT = View("light", {"width": 1280, "height": 800}, "light")
DARK = View("dark", LIGHT.size, "dark")
NARROW = View("narrow", {"width": 390, "height": 800}, "light")
VIEWS = (LIGHT, DARK, NARROW)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Size of a picture in pixels, and the mean colours of its tiles as a small picture."""

    size: tuple[int, int]
    means: Image.Image

    @classmethod
    def of(cls, picture: bytes) -> Self:
        """Decodes a picture of any format."""
        decoded = Image.open(BytesIO(picture)).convert("RGB")
        return cls(decoded.size, decoded.reduce(TILE))

    def difference(self, other: "Tiles") -> float:
        """Share of tiles that differ, from 0 to 1. Other sizes differ completely."""
        if self.size != other.size:
            return 1.0
        red, green, blue = ImageChops.difference(self.means, other.means).split()
        largest = ImageChops.lighter(ImageChops.lighter(red, green), blue).histogram()
        return sum(largest[TOLERANCE + 1 :]) / sum(largest)


class Camera:
    """Takes pictures of a page without ids, ages and other text that differs between two runs."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._session: CDPSession = page.context.new_cdp_session(page)

    def take(self) -> bytes:
        """Takes a picture as PNG, quickly."""
        return self._capture({"format": "png", "optimizeForSpeed": True})

    def take_small(self) -> bytes:
        """Takes a picture as WebP, in the best quality that the documentation has room for."""
        picture = b""
        for quality in _QUALITIES:
            picture = self._capture({"format": "webp", "quality": quality})
            if len(picture) <= ENOUGH_BYTES:
                break
        return picture

    def read(self) -> str:
        """Text of the page's content, as it is in pictures."""
        return self._page.locator("body, main").last.inner_text()

    def wait(self) -> None:
        """Lets the page change."""
        self._page.wait_for_timeout(_BETWEEN_MS)

    def _capture(self, options: dict[str, object]) -> bytes:
        self._page.evaluate(_FREEZE)
        self._page.evaluate(PAINTED)
        self._page.evaluate(_FREEZE)
        clip = {"x": 0, "y": 0, **(self._page.viewport_size or {}), "scale": SCALE}
        answer = self._session.send("Page.captureScreenshot", {**options, "clip": clip})
        return base64.b64decode(answer["data"])


def measure_fonts(page: Page) -> dict[str, float]:
    """Measures a text in a page: its width in pixels, by font."""
    return page.evaluate(_MEASURE)


def remove_others(names: Iterable[str]) -> None:
    """Removes the pictures of screens that no longer exist."""
    kept = {f"{name}-{view.name}" for name in names for view in VIEWS}
    for path in FOLDER.iterdir():
        if path.stem not in kept:
            path.unlink()


class Gallery:
    """Compares pages with the documentation's pictures, or writes them if PICTURES=write.

    `fonts`: what `measure_fonts` returns.
    `has_fonts`: false if the pictures have other fonts than this machine; nothing is compared then.
    """

    def __init__(self, fonts: dict[str, float]) -> None:
        if IS_WRITING:
            FONTS.write_text(json.dumps(fonts, indent=2) + "\n")
        self.has_fonts = json.loads(FONTS.read_text()) == fonts
        self.problems: list[str] = []
        self.shares: dict[str, float] = {}

    def compare(self, camera: Camera, name: str, max_share: float = MAX_SHARE) -> None:
        """Waits until the page equals the picture of this name. Else notes the difference."""
        path = FOLDER / f"{name}.webp"
        if IS_WRITING:
            self._write(camera, path)
        elif path.exists():
            if self.has_fonts:
                self._wait_for(camera, path, max_share)
        else:
            self.problems.append(f"{path} is missing: run make screens")

    def _wait_for(self, camera: Camera, path: Path, max_share: float) -> None:
        expected = Tiles.of(path.read_bytes())
        # A missing style sheet breaks all screens: do not wait for each of them.
        patience = _SECONDS if len(self.problems) < _PATIENT_PROBLEMS else 0
        end = time.monotonic() + patience
        while True:
            picture = camera.take()
            share = expected.difference(Tiles.of(picture))
            self.shares[path.stem] = share
            if share <= max_share:
                return
            if time.monotonic() > end:
                break
            camera.wait()
        kept = ARTEFACTS / f"{path.stem}.png"
        kept.write_bytes(picture)
        text = " ".join(camera.read().split())[:_MAX_TEXT]
        self.problems.append(f"{share:.1%} of {path} differs from {kept}, which reads: {text}")

    def _write(self, camera: Camera, path: Path) -> None:
        """Replaces the picture if it differs, once the page no longer changes."""
        now = self._at_rest(camera, path.stem)
        if path.exists():
            share = now.difference(Tiles.of(path.read_bytes()))
            self.shares[path.stem] = share
            if share <= _REWRITE_SHARE:
                return
        path.write_bytes(camera.take_small())

    def _at_rest(self, camera: Camera, name: str) -> Tiles:
        before, now = None, Tiles.of(camera.take())
        end = time.monotonic() + _SECONDS
        while before is None or now.difference(before) > 0:
            if time.monotonic() > end:
                self.problems.append(f"{name} does not come to rest")
                break
            camera.wait()
            before, now = now, Tiles.of(camera.take())
        return now
