"""What is shown in a notebook, read as a browser reads it."""

from __future__ import annotations

from xml.etree.ElementTree import Element, fromstring

ALLOWED = {
    *("div", "style", "em", "table", "thead", "tbody", "tr", "th", "td", "span", "code"),
    *("svg", "path", "circle"),
}


def parsed(html: str) -> Element:
    """Parse what is shown, strictly; refuse every element and attribute that could do
    something.
    """
    root = fromstring(html)
    for one in root.iter():
        assert one.tag in ALLOWED, one.tag
        assert not {name for name in one.attrib if name.startswith("on")}, one.attrib
        assert not {"href", "src"} & set(one.attrib), one.attrib
        assert "url(" not in one.get("style", "")
    return root


def rows(html: str) -> list[list[str]]:
    """List the texts of the cells of a table, row by row, without its head, its drawings, and what
    is shown in their place.
    """
    return [
        [
            "".join(cell.itertext()).strip()
            for cell in row.iter("td")
            if cell.find("svg") is None and not is_plain(cell)
        ]
        for row in parsed(html).iter("tr")
        if row.find("td") is not None
    ]


def heads(html: str) -> list[str]:
    return ["".join(cell.itertext()) for cell in parsed(html).iter("th") if cell.text]


def plain(html: str) -> list[str]:
    """List what stands in the place of drawings, row by row."""
    return ["".join(cell.itertext()) for cell in parsed(html).iter("td") if is_plain(cell)]


def is_plain(cell: Element) -> bool:
    return cell.get("class") == "plain"
