"""The documentation site: `make docs` builds it into docs/_build/html, `make docs-serve` shows it.

Nothing is fetched, neither when it is built nor when it is read: formulas become MathML, charts are drawn by a script
that comes with the site, and links to the documentation of other projects are plain links.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from _site import charts, formulas, notebooks, reference  # noqa: E402

import counterrank  # noqa: E402

project = "counterrank"
author = "The counterrank authors"
copyright = author
version = release = counterrank.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_design"]
exclude_patterns = ["_build", "results/*/claims.md", "**.ipynb_checkpoints"]
nitpicky = True
nitpick_ignore_regex = [("py:class", r".*")]  # types in signatures, most of them of other packages
suppress_warnings = ["myst.domains"]

# Markdown and notebooks
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_dmath_allow_space = False
myst_dmath_double_inline = False
myst_heading_anchors = 4
myst_update_mathjax = False
nb_execution_mode = "cache"
nb_execution_in_temp = True  # what a notebook writes does not stay
nb_execution_timeout = 300
nb_execution_show_tb = True  # an error is a warning, and fails the build
nb_merge_streams = True

# The API
autodoc_typehints = "signature"
_SHORT = ("ArrayLike", "BoolArray", "Discounts", "Float32Array", "FloatArray", "IntArray", "Naming", "PathLike")
autodoc_type_aliases = {name: name for name in _SHORT}  # names of types, not what they stand for
autodoc_member_order = "bysource"
autodoc_default_options = {"exclude-members": "__init__"}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
add_module_names = False

# HTML
html_theme = "pydata_sphinx_theme"
html_title = "counterrank"
html_math_renderer = "mathml"
html_sidebars = {name: [] for name in ("index", "changelog", "contributing")}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
html_search_scorer = str(HERE / "_site" / "scorer.js")
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "back_to_top_button": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def _sources() -> str:
    """A fingerprint of the library: notebooks are run again when it changes."""
    digest = hashlib.sha256()
    for file in sorted(reference.SOURCE.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


nb_execution_cache_path = os.environ.get("NB_CACHE") or str(HERE / "_build" / "notebooks" / _sources())
charts.enable_in_notebooks(HERE / "_build" / "ipython")


def setup(app: Any) -> None:
    """Formulas, generated pages and charts."""
    for each in (formulas, reference, charts, notebooks):
        each.setup(app)
