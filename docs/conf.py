"""The site of the documentation: `make docs` builds it into ``build/docs``.

Nothing is fetched: the site links to no inventory, and its fonts are those of the reader.
"""

from importlib.metadata import version as installed_version

project = "mongomem"
author = "The mongomem authors"
project_copyright = "the mongomem authors, MIT licence"
version = release = installed_version("mongomem")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
nitpicky = False  # types of LangGraph and PyMongo have no page here

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

default_role = "py:obj"  # `MongoSaver` in a docstring is a link where the name has a page
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_type_aliases = {
    "RunnableConfig": "RunnableConfig",
    "Identifier": "Identifier",
    "Backend": "Backend",
    "EmbedOption": "EmbedOption",
    "EmbeddingFunction": "EmbeddingFunction",
    "Result": "Result",
    "Op": "Op",
    "NamespacePath": "NamespacePath",
}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = "mongomem"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["layout.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#15803d", "color-brand-content": "#15803d"},
    "dark_css_variables": {"color-brand-primary": "#4ade80", "color-brand-content": "#4ade80"},
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
