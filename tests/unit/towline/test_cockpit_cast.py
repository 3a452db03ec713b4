"""The recorded cockpit of the documentation."""

import json
import re

from docs.cockpit_cast import CAST, STILL, still


def texts(svg: str) -> list[str]:
    """Lines of a screen, without its colours."""
    return [" ".join(line.split()) for line in re.findall(r">([^<]+)</text>", svg)]


async def test_the_still_shows_the_present_cockpit() -> None:
    """If it fails, run `.venv/bin/python -m docs.cockpit_cast`."""
    assert sorted(texts(await still())) == sorted(texts(STILL.read_text()))


def test_the_still_loads_nothing() -> None:
    assert "url(http" not in STILL.read_text() and "@font-face" not in STILL.read_text()


def test_the_cast_is_one_that_players_read() -> None:
    header, *events = map(json.loads, CAST.read_text().splitlines())
    assert (header["version"], header["width"], header["height"]) == (2, 100, 24)
    times = [at for at, kind, _ in events if kind == "o"]
    assert len(times) == len(events) > 20
    assert times == sorted(times) and times[0] == 0 and times[-1] < 60
    shown = "".join(text for *_, text in events)
    for text in ("only problems", "Restart Deployment", "Done."):
        assert text in shown
