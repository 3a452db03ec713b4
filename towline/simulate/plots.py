"""Plots curves as SVG without a library."""

import math
from html import escape

from towline.simulate.results import Curve, Points

_WIDTH, _HEIGHT = 560, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 36, 44
_COLOURS = ("#2563eb", "#dc2626", "#059669", "#9333ea")
_TICKS = 5
_SMALLEST = 1e-9


def svg(curve: Curve) -> str:
    """Draws one plot; both axes start at zero."""
    points = [point for line in curve.lines.values() for point in line]
    right = _ceiling(max((x for x, _ in points), default=1.0))
    top = _ceiling(max((y for _, y in points), default=1.0))
    parts = [_frame(curve), *_grid(right, top)]
    for number, (name, line) in enumerate(curve.lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        parts.append(_line(line, right, top, colour))
        parts.append(_legend(number, name, colour))
    return "\n".join((*parts, "</svg>\n"))


def _frame(curve: Curve) -> str:
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>'
    )
    title = _text(middle, 20, curve.title, anchor="middle", weight="bold")
    x_title = _text(middle, _HEIGHT - 8, curve.x, anchor="middle")
    y_title = _text(8, _TOP - 10, curve.y)
    return "\n".join((head, title, x_title, y_title))


def _grid(right: float, top: float) -> list[str]:
    parts = []
    for number in range(_TICKS + 1):
        part = number / _TICKS
        x, y = _to_pixels((right * part, top * part), right, top)
        parts.append(
            f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}" '
            'stroke="#e5e7eb" fill="none"/>'
        )
        parts.append(_text(_LEFT - 6, y + 4, _number(top * part), anchor="end"))
        parts.append(_text(x, _HEIGHT - _BOTTOM + 16, _number(right * part), anchor="middle"))
    return parts


def _line(line: Points, right: float, top: float, colour: str) -> str:
    places = " ".join(
        f"{x:.1f},{y:.1f}" for x, y in (_to_pixels(point, right, top) for point in line)
    )
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _legend(number: int, name: str, colour: str) -> str:
    """Draws the legend at the bottom right, where growing curves leave space."""
    x, y = _WIDTH - _RIGHT - 12, _HEIGHT - _BOTTOM - 12 - 16 * number
    return _text(x, y, name, anchor="end", colour=colour)


def _to_pixels(point: tuple[float, float], right: float, top: float) -> tuple[float, float]:
    x = _LEFT + point[0] / right * (_WIDTH - _LEFT - _RIGHT)
    y = _HEIGHT - _BOTTOM - point[1] / top * (_HEIGHT - _TOP - _BOTTOM)
    return x, y


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", colour: str = "#111827",
    weight: str = "normal",
) -> str:  # fmt: skip
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )


def _ceiling(value: float) -> float:
    """Rounds up to 1, 2, 2.5, 5 or 10 times a power of ten."""
    if value < _SMALLEST:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if value <= step * power * 1.0001)


def _number(value: float) -> str:
    return f"{value:,.6g}"
