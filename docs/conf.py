"""How Sphinx makes the site. Its sources are this folder, `study/` and the pages at the project's root, as they lie."""

from __future__ import annotations

import sys
from pathlib import Path

from homefold.version import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "homefold"
author = "The homefold authors"
copyright = "the homefold authors"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "written_from_code",
]
root_doc = "docs/index"
source_suffix = {".md": "markdown"}
include_patterns = ["docs/**.md", "study/*.md", "results/**.md", "[A-Z]*.md"]
exclude_patterns = [".*", "README.md", "benchmarks", "build", "dist", "examples", "scripts", "src", "tests", "*output"]

myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autoclass_content = "class"
default_role = "code"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False

smartquotes = False  # it would make one dash of the two before a flag

html_theme = "furo"
html_title = "homefold"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_extra"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def _skip(app, what, name, thing, skip, options):
    """scikit-learn's own machinery is explained by scikit-learn."""
    return True if name.endswith("_request") or name == "get_metadata_routing" else skip


def setup(app):
    """Join Sphinx."""
    app.connect("autodoc-skip-member", _skip)


linkcheck_timeout = 30
linkcheck_retries = 2
