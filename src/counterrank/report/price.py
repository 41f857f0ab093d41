"""A panel of policies: what each costs against what it brings, families of policies as lines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from counterrank.clicks.policies.parsing import split_mixture
from counterrank.report.axes import x_axis, x_scale
from counterrank.report.names import number, percent, readable
from counterrank.report.points import is_number
from counterrank.report.styles import Style
from counterrank.report.vega import INK

if TYPE_CHECKING:
    import altair as alt

_HEIGHT = 340
_TICKS = (-0.1, -0.01, 0.0, 0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
_NEAR = (0.28, 0.05)  # of the panel: two names closer than that across and up would cover each other


def family_of(policy: str) -> str:
    """What policies that differ in one setting have in common; a mixture is a family of its own.

    >>> family_of("epsilon-greedy:k=5,epsilon=0.1"), family_of("0.5*deterministic:k=5 + 0.5*replace-last:k=5")
    ('epsilon-greedy:k=5', '0.5*deterministic:k=5 + 0.5*replace-last:k=5')
    """
    return policy if split_mixture(policy) else policy.partition(",")[0]


def price_panel(
    rows: list[dict[str, Any]],
    x: tuple[str, str],
    title: tuple[str, str],
    styles: dict[str, Style],
    width: int | None = None,
) -> alt.LayerChart:
    """Policies as points of x (a key of the rows and its name; a logarithmic axis) and price.

    Rows have a policy, a price and the value of x; those without either, or with an x not above 0, are left out.
    `hollow` ones are drawn so.

    >>> rows = [{"policy": "replace-last:k=5", "price": 0.07, "width": 0.02, "hollow": False}]
    >>> chart = price_panel(rows, ("width", "Width"), ("Price", ""), {})
    >>> [layer.name for layer in chart.layer]
    ['lines', 'points', 'left names', 'right names']
    """
    import altair as alt

    key, label = x
    points = _points(rows, key)
    places = sorted(point["x"] for point in points) or [1.0, 10.0]
    names = list(dict.fromkeys(point["family"] for point in points))
    looks = [styles.get(name, Style(INK)) for name in names]
    axis = alt.X("x:Q", title=label, scale=x_scale(places, log=True), axis=x_axis(places, {"log": True}))
    top = max((point["price"] for point in points), default=0.1)
    low = min(0.0, min((point["price"] for point in points), default=0.0))
    y = alt.Y(
        "price:Q",
        title="Price: share of the displayed metric that is lost",
        # roots, so that small prices stand apart
        scale=alt.Scale(type="sqrt", domain=[low, max(top, 0.01) * 1.2], nice=False),
        axis=alt.Axis(
            values=[tick for tick in _TICKS if low <= tick <= 1.2 * top],
            labelExpr="format(100 * datum.value, '~r') + ' %'",
        ),
    )

    def scale(values: list[Any]) -> Any:
        return alt.Scale(domain=names, range=values)

    color = alt.Color("family:N", legend=None, scale=scale([look.color for look in looks]))
    dash = alt.StrokeDash("family:N", legend=None, scale=scale([list(look.dash) or [1, 0] for look in looks]))
    shape = alt.Shape("family:N", legend=None, scale=scale([_shape(look) for look in looks]))
    tooltip = [
        alt.Tooltip("policy:N", title="Policy"),
        alt.Tooltip("said:N", title=label),
        alt.Tooltip("cost:N", title="Price"),
    ]
    filled = alt.condition("datum.hollow", alt.value("white"), color)
    lines = alt.Chart({"values": points}, name="lines").mark_line(strokeWidth=1.6, opacity=0.6)
    dots = alt.Chart({"values": points}, name="points").mark_point(size=70, opacity=1, strokeWidth=1.6)
    layers = [
        lines.encode(axis, y, color=color, strokeDash=dash, order="place:Q"),
        dots.encode(axis, y, color=color, fill=filled, shape=shape, tooltip=tooltip),
        *(_words(points, side).encode(axis, y, text="label:N") for side in ("left", "right")),
    ]
    head = alt.TitleParams(title[0], subtitle=title[1] or " ")
    return alt.LayerChart(layer=layers, height=_HEIGHT, title=head, width=width or "container")


def _points(rows: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    drawn = [row for row in rows if is_number(row.get("price")) and is_number(row.get(key)) and row[key] > 0]
    last = {family_of(row["policy"]): row["policy"] for row in drawn}
    points = [
        {
            "policy": row["policy"],
            "family": family_of(row["policy"]),
            "x": row[key],
            "price": row["price"],
            "said": number(row[key]),
            "cost": percent(row["price"], 2),
            "hollow": bool(row.get("hollow")),
            "place": place,
            "is_last": row["policy"] == last[family_of(row["policy"])],
        }
        for place, row in enumerate(drawn)
    ]
    _name(points)
    return points


def _name(points: list[dict[str, Any]]) -> None:
    """Give points their labels, families first; a label that would cover another is left out, the pointer tells it."""
    if not points:
        return
    logs = [math.log(point["x"]) for point in points]
    roots = [math.copysign(math.sqrt(abs(point["price"])), point["price"]) for point in points]
    across, up = (max(values) - min(values) or 1.0 for values in (logs, roots))
    placed: list[tuple[float, float]] = []
    for i in sorted(range(len(points)), key=lambda i: not points[i]["is_last"]):
        at = ((logs[i] - min(logs)) / across, (roots[i] - min(roots)) / up)
        free = all(abs(at[0] - x) > _NEAR[0] or abs(at[1] - y) > _NEAR[1] for x, y in placed)
        points[i] |= {"label": "", "side": "left" if at[0] > 0.7 else "right"}
        if free:
            points[i]["label"] = _label(points[i]["policy"], points[i]["is_last"])
            placed.append(at)


def _words(points: list[dict[str, Any]], side: str) -> Any:
    """Names on one side of their points, so that none leaves the panel."""
    import altair as alt

    chosen = [point for point in points if point["label"] and point["side"] == side]
    place: dict[str, Any] = {"align": "right", "dx": -9} if side == "left" else {"align": "left", "dx": 9}
    words = alt.Chart({"values": chosen}, name=f"{side} names")
    return words.mark_text(baseline="middle", dy=-6, fontSize=11, color=INK, **place)


def _label(policy: str, is_last: bool) -> str:
    """The setting that tells a policy from its family; the last of them has the name too."""
    if split_mixture(policy):
        return readable(policy)
    setting = policy.partition(",")[2].rpartition("=")[2]
    kind = policy.partition(":")[0]
    return f"{kind} {setting}".strip() if is_last else setting


def _shape(look: Style) -> str:
    return "circle" if look.shape.startswith("M") else look.shape
