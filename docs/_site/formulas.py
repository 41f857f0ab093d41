"""Formulas of the site: plain text of docstrings to LaTeX, LaTeX to MathML at build time, and the paper's equations.

Browsers draw MathML by themselves, so pages need no script and no fonts from elsewhere. The converter is that of
docutils.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any, NamedTuple

from docutils.utils.math import latex2mathml


class Equation(NamedTuple):
    """An equation of the paper with a label: its number, a name, and LaTeX."""

    number: int
    name: str
    latex: str


_EXAMINED = r"P\big(o(d) = 1 \mid q, r, \bar{R}\big)"
_BY_POLICY = r"\sum_{\bar{R} \in \pi(\cdot \mid q)} \pi\big(\bar{R} \mid q\big) \cdot " + _EXAMINED
_PAIR = r"\log_2 \left( \left( \frac{1}{1 + e^{s(d_m) - s(d_n)}} \right)^{\delta_{nm} \cdot |G_n - G_m|} \right)"

EQUATIONS = {
    "eq:ARP": Equation(3, "Average relevance position", r"\lambda^{\text{ARP}}(d \mid R) = \text{rank}(d \mid R)"),
    "eq:DCG": Equation(
        4,
        "Discounted cumulative gain, as a loss",
        r"\lambda^{\text{DCG}}(d \mid R) = -\log_2\big(1 + \text{rank}(d \mid R)\big)^{-1}",
    ),
    "eq:highlevelloss": Equation(
        5,
        "The loss over all interactions",
        r"\hat{\mathcal{L}} = \frac{1}{N} \sum_{i=1}^{N} \hat{\Delta}(R_i \mid q_i, \bar{R}_i, \pi, c_i)",
    ),
    "eq:naiveestimator": Equation(
        6,
        "Naive estimator",
        r"{\hat{\Delta}}_{\text{naive}}(R \mid q, c) = \sum_{d : c(d) = 1} \lambda(d \mid R)",
    ),
    "eq:obliviousestimator": Equation(
        8,
        "Policy-oblivious estimator",
        r"{\hat{\Delta}}_{\text{oblivious}}(R \mid q, c, \bar{R}) = "
        rf"\sum_{{d : c(d) = 1}} \frac{{\lambda(d \mid R)}}{{{_EXAMINED}}}",
    ),
    "eq:agnosticcond": Equation(
        10,
        "When policy-oblivious is unbiased",
        r"\forall d, \; \forall \bar{R} \in \pi(\cdot \mid q) \; \left[ r(d) = 1 \to " + _EXAMINED + r" > 0 \right]",
    ),
    "eq:expexam": Equation(
        12,
        "Propensity under the policy",
        r"P\big(o(d) = 1 \mid q, r, \pi\big) &= \mathbb{E}_{\bar{R}}\left["
        + _EXAMINED
        + r"\right] \\ &= "
        + _BY_POLICY,
    ),
    "eq:policyaware": Equation(
        13,
        "Policy-aware estimator",
        r"{\hat{\Delta}}_{\text{aware}}(R \mid q, c, \pi) = "
        r"\sum_{d : c(d) = 1} \frac{\lambda(d \mid R)}{P\big(o(d) = 1 \mid q, r, \pi\big)}",
    ),
    "eq:awarecond": Equation(
        15,
        "When policy-aware is unbiased",
        r"\forall d \; \left[ r(d) = 1 \to " + _BY_POLICY + r" > 0 \right]",
    ),
    "eq:awarecond2": Equation(
        16,
        "When policy-aware is unbiased, the same in other words",
        r"\forall d \; \Big[ r(d) = 1 \to \exists \bar{R} \; \big[ \pi\big(\bar{R} \mid q\big) > 0 \land "
        + _EXAMINED
        + r" > 0 \big] \Big]",
    ),
    "eq:linearupperbound": Equation(
        25,
        "Linear bound of the rank",
        r"\text{rank}(d \mid R) \leq \sum_{d' \in R} \max\Big(1 - \big(s(d) - s(d')\big), 0\Big)",
    ),
    "eq:logupperbound": Equation(
        26,
        "Logistic bound of the rank",
        r"\text{rank}(d \mid R) \leq \sum_{d' \in R} \log_2\Big(1 + e^{s(d') - s(d)}\Big)",
    ),
    "eq:kmonotonic": Equation(
        29,
        "Monotonic bound of a top-k metric",
        r"{\hat{\lambda}}^{\alpha @ k}(d \mid R) = -\alpha\big(\overline{\text{rank}}(d \mid R)\big) + "
        r"\mathbb{1}\big[\text{rank}(d \mid R) > k\big] \cdot \alpha(k)",
    ),
    "eq:generalestimator": Equation(
        31,
        "Any estimator with inverse propensities",
        r"{\hat{\Delta}}_{\text{IPS}}(R \mid q, c, \cdot) = \sum_{d_n : c(d_n) = 1} "
        r"\frac{\lambda(d_n \mid R)}{\rho\big(o(d_n) = 1 \mid q, r, \bar{R}, \pi\big)}",
    ),
    "eq:gaindiscountchoice": Equation(
        32,
        "Gains and discounts from clicks",
        r"G_n = \frac{1}{\rho\big(o(d_n) = 1 \mid q, r, \bar{R}, \pi\big)} "
        r"\quad\text{and}\quad D_n = \lambda(d_n \mid R)",
    ),
    "eq:embound": Equation(34, "Counterfactual LambdaLoss", rf"\sum_{{G_n > G_m}} -{_PAIR}"),
    "eq:truncembound": Equation(
        35,
        "Truncated LambdaLoss",
        rf"\sum_{{G_n > G_m}} -\mathbb{{1}}\big[n \leq k \lor m \leq k\big] \cdot {_PAIR}",
    ),
}
LABEL = re.compile(r"eq:([A-Za-z]\w*)")


def target(label: str) -> str:
    """The name of the place of an equation, for cross-references."""
    return label.replace(":", "-").lower()


# Plain text to LaTeX, token by token: nothing is restructured, so a formula stays what its author wrote.

_GREEK = ["alpha", "beta", "gamma", "delta", "epsilon", "theta", "lambda", "pi", "rho", "tau", "omega"]
_FUNCTIONS = {"log2": r"\log_2", "log10": r"\log_{10}", "log": r"\log", "exp": r"\exp", "min": r"\min", "max": r"\max"}
_FUNCTIONS |= {"sum": r"\sum", "argmax": r"\operatorname{argmax}", "argmin": r"\operatorname{argmin}"}
_SIGNS = {">=": r"\geq ", "<=": r"\leq ", "*": r"\cdot ", "~": r"\sim ", "..": r"\ldots ", "...": r"\ldots "}
_TOKEN = re.compile(
    r"(?P<gap>\s{2,})|(?P<space>\s)|(?P<text>\"[^\"]*\")|(?P<number>\d+(?:\.\d+)?)|(?P<name>[A-Za-z]\w*'?)"
    r"|(?P<power>\*\*|\^)|(?P<sign>>=|<=|\.\.\.?|.)",
)
_SUM = re.compile(r"\bsum over (.+?(?: of [a-z])?) of\s+")


def _subscripted(name: str) -> str | None:
    """`w_n`, `theta_rank` or `rank_d` with a subscript; None for names such as `self_normalized`."""
    base, _, below = name.partition("_")
    if not below or "_" in below or not (len(base) == 1 or base in _GREEK or len(below) <= 2):
        return None
    prime = "'" if below.endswith("'") else ""
    return f"{_named(base)}_{{{_named(below.rstrip(chr(39)))}{prime}}}"


def _named(name: str) -> str:
    if name in _GREEK:
        return rf"\{name} "
    if name in _FUNCTIONS:
        return _FUNCTIONS[name] + " "
    if len(name.rstrip("'")) == 1:
        return name
    return _subscripted(name) or rf"\text{{{name}}}"


def _group(text: str, start: int) -> int:
    """Where the bracket that opens at `start` has closed."""
    depth = 0
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    return len(text)


def _line(text: str) -> str:
    found, place = [], 0
    while place < len(text):
        match = _SUM.match(text, place)
        if match:
            found.append(rf"\sum_{{{_line(match[1])}}} ")
            place = match.end()
            continue
        match = _TOKEN.match(text, place)
        assert match is not None
        kind, token, place = match.lastgroup, match[0], match.end()
        opens = text[place : place + 1]
        if kind == "name" and token.endswith("_") and opens in ("(", "|"):  # D_(|n-m|+1), D_|n-m|
            end = _group(text, place) if opens == "(" else text.index("|", place + 1) + 1
            inside = text[place + 1 : end - 1] if opens == "(" else text[place:end]
            found.append(f"{_named(token[:-1])}_{{{_line(inside)}}}")
            place = end
        elif kind == "power":
            place += len(text[place:]) - len(text[place:].lstrip())
            if text[place : place + 1] == "(":
                end = _group(text, place)
                found.append(f"^{{{_line(text[place + 1 : end - 1])}}}")
            else:
                word = re.compile(r"[\w.]+").match(text, place)
                end = word.end() if word else place + 1
                found.append(f"^{{{_line(text[place:end])}}}")
            place = end
        elif kind == "name" and token == "e" and opens == "^":
            found.append("e")
        elif kind == "sign" and token == "|" and text[match.start() - 1 : match.start()] == " " == opens:
            found.append(r"\mid ")
        else:
            found.append(
                {
                    "gap": r"\qquad ",
                    "space": r"\ ",
                    "text": rf"\text{{{token}}}",
                    "name": _named(token) if kind == "name" else "",
                    "number": token,
                    "sign": _SIGNS.get(token, token),
                }[str(kind)]
            )
    return _tidy("".join(found))


def _tidy(latex: str) -> str:
    """Words next to each other as one text; no spaces around signs, which have their own."""
    latex = re.sub(r"\\ (?=[-+=/<>,;:.)]|\\(cdot|mid|geq|leq|sim|qquad))|(?<=[-+=/<>,;:(])\\ ", " ", latex)
    latex = re.sub(r"(\\(?:cdot|mid|geq|leq|sim|sum|min|max|log|exp) )\s*\\ ", r"\1", latex)
    while True:
        joined = re.sub(r"\\text\{([^}]*)\}\\ \\text\{", r"\\text{\1 ", latex)
        if joined == latex:
            return re.sub(r" {2,}", " ", latex)
        latex = joined


def typeset(block: str) -> str:
    """LaTeX of a formula that a docstring writes in plain text, one row for each of its lines.

    >>> typeset("omega(d) = sum over clicks on d of min(1 / rho(d), clip)")
    '\\\\omega (d) = \\\\sum_{\\\\text{clicks on}\\\\ d} \\\\min (1 / \\\\rho (d), \\\\text{clip})'
    """
    rows = []
    for raw in block.splitlines():
        line = re.sub(r"\s*\(?`?eq:\w+`?[^)]*\)?", "", raw) if "(eq:" in raw or "(`eq:" in raw else raw
        line = re.sub(r" of `?eq:\w+`?", "", line).replace("`", "").strip()
        left, equals, right = re.match(r"(.*?)(\s*(?<![<>])=\s+|$)(.*)", line).groups()  # type: ignore[union-attr]
        rows.append(
            f"{_line(left)} &= {_line(right)}"
            if equals and not re.search(r"\s{3}|\b(for|if)\b", left)
            else f"& {_line(line)}"
        )
    return r" \\ ".join(rows) if len(rows) > 1 else rows[0].replace("&", "").strip()


def is_formula(block: str) -> bool:
    """Whether an indented block of a docstring is a formula, and not a table or code."""
    first = block.strip().splitlines()[0]
    code = first.startswith((">>>", "counterrank ", "python ", "pip ", "$"))
    return not code and bool(re.match(r"(sum|minimise|maximise|low|\||factor)\b|\||.*?\S\s*=\s|.*~|\d+ if", first))


# LaTeX to MathML

# docutils sets the subscript of an accented symbol below it; an empty base puts it to the right
_ACCENTED = re.compile(r"\{?\\(?:hat|bar|tilde)\s*(?:\{[^{}]*\}|\\[A-Za-z]+|\w)\}?(?=_)")


def mathml(latex: str, block: bool) -> str:
    """MathML of a formula; raises ValueError where docutils does not know a command."""
    latex = _ACCENTED.sub(r"\g<0>{}", re.sub(r"\\[bB]igg?[lr]?(?![A-Za-z])", "", latex))
    return str(latex2mathml.tex2mathml(latex, as_block=block))


def _visit_inline(self: Any, node: Any) -> None:
    from docutils.nodes import SkipNode

    self.body.append(_checked(node, False))
    raise SkipNode


def _visit_block(self: Any, node: Any) -> None:
    from docutils.nodes import SkipNode

    number = f'<span class="equation-number">({node["number"]})</span>' if node.get("number") else ""
    self.body.append(f'<div class="formula" tabindex="0">{number}{_checked(node, True)}</div>')
    raise SkipNode


def _checked(node: Any, block: bool) -> str:
    from sphinx.util import logging

    latex = node.astext()
    try:
        return mathml(latex, block)
    except Exception as error:  # whatever the parser stumbles over
        logging.getLogger(__name__).warning("formula %r: %s", latex, error, location=node)
        return f"<code>{escape(latex)}</code>"


def setup(app: Any) -> None:
    """Draw math as MathML."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
