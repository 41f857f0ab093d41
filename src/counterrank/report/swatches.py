"""Legend entries for the page: a piece of the line with its marker, as inline SVG."""

from __future__ import annotations

from counterrank.report.styles import Style

_SHAPES = {
    "circle": "M0,-1A1,1,0,1,1,0,1A1,1,0,1,1,0,-1Z",
    "square": "M-0.9,-0.9L0.9,-0.9L0.9,0.9L-0.9,0.9Z",
    "diamond": "M0,-1.2L1.2,0L0,1.2L-1.2,0Z",
    "triangle-up": "M0,-1.1L1.1,0.9L-1.1,0.9Z",
    "triangle-down": "M0,1.1L1.1,-0.9L-1.1,-0.9Z",
    "triangle-left": "M-1.1,0L0.9,-1.1L0.9,1.1Z",
    "triangle-right": "M1.1,0L-0.9,-1.1L-0.9,1.1Z",
    "cross": "M-1.1,-0.4L1.1,-0.4L1.1,0.4L-1.1,0.4ZM-0.4,-1.1L0.4,-1.1L0.4,1.1L-0.4,1.1Z",
}


def swatch(style: Style) -> str:
    """A line of 34 pixels with the style's dashes and marker.

    >>> swatch(Style("#0072B2")).startswith('<svg class="swatch"')
    True
    """
    is_path = style.shape.startswith("M")
    width = min(style.width, 6)
    dash = f' stroke-dasharray="{" ".join(map(str, style.dash))}"' if style.dash else ""
    faint = ' opacity="0.25"' if width > 4 else ""
    line = f'<path d="M1,7L33,7" fill="none" stroke="{style.color}" stroke-width="{width}"{dash}{faint}/>'
    is_bar = is_path and "A" not in style.shape  # the line itself says it all
    shape = style.shape if is_path else _SHAPES.get(style.shape, _SHAPES["circle"])
    marker = "" if is_bar else f'<path d="{shape}" transform="translate(17,7) scale(4)" fill="{style.color}"/>'
    return f'<svg class="swatch" width="34" height="14" viewBox="0 0 34 14" aria-hidden="true">{line}{marker}</svg>'
