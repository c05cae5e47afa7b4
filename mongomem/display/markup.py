"""HTML that is escaped by construction, and texts that fit into one line."""

from __future__ import annotations

import html
import re
import unicodedata

INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode categories of characters that have no picture, or turn that of others around."""

JOINER = "\u200d"
"""It joins the characters of one emoji, and stays."""

STYLE = """
.mongomem{font:13px/1.35 system-ui,sans-serif;overflow-x:auto;container-type:inline-size;
contain-intrinsic-inline-size:60em}
.mongomem table{border-collapse:collapse;border:0;margin:0;font-size:13px;color:inherit}
.mongomem tr,.mongomem tr:nth-child(even){background:none;border:0}
.mongomem th,.mongomem td{border:0;padding:0 12px 0 0;text-align:left;vertical-align:middle;
white-space:nowrap;overflow:hidden;text-overflow:ellipsis;max-width:34em}
.mongomem th{font-weight:600;font-size:11px;opacity:.65;height:24px}
.mongomem td{height:30px;border-top:1px solid rgba(128,128,128,.18)}
.mongomem .chip{display:inline-block;border-radius:9px;padding:1px 8px;margin-right:5px;
font-size:12px;max-width:30em;overflow:hidden;text-overflow:ellipsis;vertical-align:middle;background:rgba(128,128,128,.16)}
.mongomem .fit{display:flex;overflow:hidden}
.mongomem .fit>*{flex:0 1 auto;min-width:0;white-space:pre;overflow:hidden;text-overflow:ellipsis}
.mongomem .fit>.kept{flex:none;max-width:14em}
.mongomem .dim{opacity:.62}
.mongomem .plain{display:none}
.mongomem code{font-size:11px;background:none;color:inherit;padding:0}
""".replace("\n", "").replace(".mongomem", ".mongomem" * 3)
"""The style of everything shown, below one class, which is named thrice to weigh more than the
notebook's own rules for tables. It leaves the colours of text and page to the notebook, which may
be dark.

What has the class ``fit`` is as wide as its texts, up to the width that its style says: that is
measured by the notebook's (``cqw``), so that texts are cut where there is no room and only there.

A viewer that does not trust a notebook drops the style and all SVG. What has the class ``plain`` is
shown there and only there."""


class Html(str):
    """A string that is HTML already. Any other string is text, and escaped where it is used."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: object) -> Html:
    """Build an element. A trailing underscore of an attribute is dropped, others become hyphens;
    one that is None or empty is left out.
    """
    names = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    given = "".join(
        f' {name}="{html.escape(str(value))}"'
        for name, value in names.items()
        if value is not None and value != ""
    )
    return Html(f"<{tag}{given}>{joined(*children)}</{tag}>")


def joined(*children: str) -> Html:
    """Put HTML and texts behind one another."""
    return Html("".join(one if isinstance(one, Html) else html.escape(one) for one in children))


def cell(
    *children: str,
    tag: str = "td",
    align: str = "left",
    style: str = "",
    **attributes: object,
) -> Html:
    """Build a cell of a table, which says itself how it is aligned."""
    return element(tag, *children, style=f"text-align:{align};{style}", **attributes)


def fitted(width: str, *children: Html) -> Html:
    """Put elements into one line no wider than `width`, a length of CSS: the longest give way, but
    for those of the class ``kept``.
    """
    return element("span", *children, class_="fit", style=f"max-width:{width}")


def page(*children: str) -> Html:
    """Wrap what a notebook shows, with its style."""
    return element("div", element("style", Html(STYLE)), *children, class_="mongomem")


def one_line(text: str, length: int = 80) -> str:
    """Fit a text into a line of so many characters. What has no picture is written as its escape.

    Takes no longer for a long text than for one of `length`.
    """
    head = text[: 4 * length]
    line = visible(re.sub(r"\s+", " ", head).strip())
    if len(line) <= length and len(head) == len(text):
        return line
    return f"{line[: length - 1].rstrip()}…"


def visible(text: str) -> str:
    """Write what has no picture as its escape."""
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character == JOINER or unicodedata.category(character) not in INVISIBLE:
        return character
    return f"\\u{{{ord(character):x}}}"
