"""Reports of outcomes: table rows, JSON and an HTML page with plots."""

from collections.abc import Sequence
from dataclasses import asdict
from html import escape

from core.json_object import JsonObject
from towline.simulate.forecast import Forecast, as_json
from towline.simulate.plots import svg
from towline.simulate.results import Figure, ScenarioResult

_STYLE = """body{font:15px sans-serif;max-width:62em;margin:2em auto;color:#111827}
table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:left}
td.n{text-align:right}.no{color:#dc2626}svg{margin:1em 1em 1em 0}"""
_WORDS = {True: "met", False: "missed", None: ""}


def rows(outcomes: Sequence[ScenarioResult]) -> list[JsonObject]:
    """Returns one row per figure."""
    return [
        {
            "scenario": outcome.scenario,
            "figure": figure.name,
            "value": f"{figure.value:,.4g} {figure.unit}".strip(),
            "goal": "" if figure.goal is None else f"≤ {figure.goal:g}",
            "ok": _WORDS[figure.ok],
        }
        for outcome in outcomes
        for figure in outcome.figures
    ]


def document(outcomes: Sequence[ScenarioResult], prediction: Forecast | None) -> JsonObject:
    """Converts outcomes and forecast to JSON values."""
    scenarios = [asdict(outcome) for outcome in outcomes]
    return {"scenarios": scenarios, "forecast": as_json(prediction) if prediction else None}


def html(title: str, outcomes: Sequence[ScenarioResult], prediction: Forecast | None) -> str:
    """Formats a self-contained HTML page."""
    parts = [
        f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title>",
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1>",
    ]
    if prediction is not None:
        parts += [f"<p><b>{escape(prediction.answer)}</b></p>", _constraints_table(prediction)]
    for outcome in outcomes:
        parts += [f"<h2>{escape(outcome.scenario)}</h2>", _table(outcome.figures)]
        parts += [svg(curve) for curve in outcome.curves]
    return "\n".join(parts) + "\n"


def _table(figures: Sequence[Figure]) -> str:
    lines = [
        f"<tr><td>{escape(figure.name)}<td class=n>{figure.value:,.4g} {escape(figure.unit)}"
        f"<td>{'' if figure.goal is None else f'≤ {figure.goal:g}'}"
        f"<td class={'no' if figure.ok is False else 'yes'}>{_WORDS[figure.ok]}"
        for figure in figures
    ]
    return "<table>" + "\n".join(lines) + "</table>"


def _constraints_table(prediction: Forecast) -> str:
    lines = [
        f"<tr><td>{escape(constraint.need)}<td class=n>{constraint.value:,.4g}"
        f"<td>of {constraint.limit:,.4g} {constraint.unit}"
        f"<td>enough for {constraint.max_clusters:,} clusters"
        for constraint in prediction.constraints
    ]
    return "<table>" + "\n".join(lines) + "</table>"
