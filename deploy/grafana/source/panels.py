"""Panels in a few words each. A dashboard is rows of panels; a row shares its height and its 24 columns."""

from itertools import count
from typing import Any

Panel = dict[str, Any]

PROMETHEUS = {"type": "prometheus", "uid": "waterclock-prometheus"}
POSTGRES = {"type": "grafana-postgresql-datasource", "uid": "waterclock-postgres"}

GOOD, WARN, BAD = "green", "orange", "red"
STATUS_COLOURS = {
    "SUCCESS": GOOD,
    "succeeded": GOOD,
    "FAILED": BAD,
    "failed": BAD,
    "TIMED_OUT": "dark-red",
    "timed_out": "dark-red",
    "MISSED": "purple",
    "SKIPPED": "yellow",
    "CANCELLED": "text",
    "cancelled": "text",
    "RUNNING": "blue",
}


def promql(expression: str, legend: str = "") -> dict[str, Any]:
    return {"datasource": PROMETHEUS, "expr": expression, "legendFormat": legend or "__auto"}


def sql(query: str, format: str = "table") -> dict[str, Any]:
    return {
        "datasource": POSTGRES,
        "rawSql": " ".join(query.split()),
        "format": format,
        "rawQuery": True,
        "editorMode": "code",
    }


def series(
    title: str, *targets: dict[str, Any], unit: str = "short", about: str = "", stack: bool = False
) -> Panel:
    custom: dict[str, Any] = {"fillOpacity": 25 if stack else 8, "lineWidth": 1, "showPoints": "never"}
    if stack:
        custom["stacking"] = {"mode": "normal"}
    return _panel("timeseries", title, targets, unit, about, custom, {"legend": {"displayMode": "list"}})


def stat(
    title: str, target: dict[str, Any], *, unit: str = "short", about: str = "", bad_at: float | None = None
) -> Panel:
    text = unit == "string"
    reduce: dict[str, Any] = {"calcs": ["lastNotNull"], "values": False}
    if text:  # without this only numbers are looked at, and a text is "No data"
        reduce["fields"] = "/.*/"
    panel = _panel(
        "stat",
        title,
        (target,),
        unit,
        about,
        {},
        {"reduceOptions": reduce, "colorMode": "value", "graphMode": "none" if text else "area"},
    )
    if bad_at is not None:
        steps = [{"color": GOOD, "value": None}, {"color": BAD, "value": bad_at}]
        panel["fieldConfig"]["defaults"]["thresholds"] = {"mode": "absolute", "steps": steps}
    return panel


def table(title: str, query: str, *, about: str = "", links: dict[str, str] | None = None) -> Panel:
    """`links`: a column, and where a click on it leads."""
    panel = _panel("table", title, (sql(query),), "", about, {"filterable": True}, {"showHeader": True})
    panel["fieldConfig"]["overrides"] += [
        {
            "matcher": {"id": "byName", "options": column},
            "properties": [{"id": "links", "value": [{"title": column, "url": url}]}],
        }
        for column, url in (links or {}).items()
    ]
    return panel


def heatmap(title: str, target: dict[str, Any], *, about: str = "") -> Panel:
    target = {**target, "format": "heatmap"}
    return _panel("heatmap", title, (target,), "s", about, {}, {"calculate": False, "yAxis": {"unit": "s"}})


def quantiles(metric: str, by: str = "") -> list[dict[str, Any]]:
    """Median, 95th and 99th percentile of a histogram."""
    grouping = f"le, {by}" if by else "le"
    legend = f" {{{{{by}}}}}" if by else ""
    return [
        promql(
            f"histogram_quantile({quantile}, sum by ({grouping}) (rate({metric}_bucket[$__rate_interval])))",
            f"p{round(quantile * 100)}{legend}",
        )
        for quantile in (0.5, 0.95, 0.99)
    ]


def dashboard(
    uid: str,
    title: str,
    about: str,
    rows: list[tuple[int, list[Panel]]],
    variables: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """`rows`: the height of each, and its panels, which share the width."""
    ids, panels, top = count(1), [], 0
    for height, row in rows:
        width = 24 // len(row)
        for place, panel in enumerate(row):
            position = {"h": height, "w": width, "x": place * width, "y": top}
            panels.append({**panel, "id": next(ids), "gridPos": position})
        top += height
    return {
        "uid": f"waterclock-{uid}",
        "title": f"waterclock / {title}",
        "description": about,
        "tags": ["waterclock"],
        "schemaVersion": 41,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [
            {
                "type": "dashboards",
                "tags": ["waterclock"],
                "title": "waterclock",
                "asDropdown": True,
                "includeVars": False,
                "keepTime": True,
            }
        ],
        "templating": {"list": variables or []},
        "panels": panels,
    }


def job_variable() -> dict[str, Any]:
    query = "SELECT job_id FROM waterclock.jobs ORDER BY updated_at DESC LIMIT 1000"
    return {
        "name": "job",
        "label": "Job",
        "type": "query",
        "datasource": POSTGRES,
        "query": query,
        "refresh": 2,
        "sort": 1,
    }


def _panel(
    kind: str,
    title: str,
    targets: tuple[dict[str, Any], ...],
    unit: str,
    about: str,
    custom: dict[str, Any],
    options: dict[str, Any],
) -> Panel:
    numbered = [{**target, "refId": chr(ord("A") + number)} for number, target in enumerate(targets)]
    overrides: list[dict[str, Any]] = []
    if title in ("Runs ended", "Runs by status"):
        overrides = [
            {
                "matcher": {"id": "byName", "options": status},
                "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
            }
            for status, colour in STATUS_COLOURS.items()
        ]
    return {
        "type": kind,
        "title": title,
        "description": about,
        "datasource": numbered[0]["datasource"],
        "targets": numbered,
        "fieldConfig": {"defaults": {"unit": unit, "custom": custom}, "overrides": overrides},
        "options": options,
    }
