"""The label that a user id becomes in a namespace of the store. Pure.

A label of LangGraph holds no period, and the first label of an item is not ``langgraph``. Any other
id is its own label. Where one cannot be, the period is percent-encoded, as ``urllib.parse.unquote``
decodes it: ``ada@example.com`` becomes ``ada@example%2Ecom``.

Two ids never have one label. An id that could be taken for an encoded one, since it holds ``%2E``,
is encoded too: ``%`` becomes ``%25``. URLs leave periods as they are (RFC 3986, section 2.3), so
that ids that were percent-encoded for one hold no ``%2E``.
"""

from __future__ import annotations

import re

from mongomem.arguments import shown
from mongomem.checkpoint.documents.config import Identifier, identifier
from mongomem.errors import InvalidInputError

RESERVED = "langgraph"
"""The first label that LangGraph keeps for itself (``InvalidNamespaceError``)."""

RESERVED_LABEL = "%6Canggraph"

_ENCODED = re.compile(r"\.|%(?:25)*2E|\A(?:l|%(?:25)*6C)anggraph\Z")
"""What an id holds that is not its own label. Encoding leaves in a label what this finds, so that
no encoded id is the label of another id that stays as it is."""


def user_namespace(user_id: Identifier) -> tuple[str, ...]:
    """Return the namespace that holds the memories of a user: one label, of no other user.

    An id that can be a label is that label. An int, a UUID, an ObjectId or an enum is one with its
    string.

    Raises:
        InvalidInputError: It is no user id, is empty, or holds NUL, which no label may.
    """
    user = identifier("user_id", user_id)
    if not user:
        raise InvalidInputError(
            "user_id is empty: pass the id of one user, or nobody's data would be everybody's"
        )
    if "\0" in user:
        raise InvalidInputError(f"user_id holds NUL, take it out first: {shown(user)}")
    if user == RESERVED:
        return (RESERVED_LABEL,)
    if not _ENCODED.search(user):
        return (user,)
    return (user.replace("%", "%25").replace(".", "%2E"),)
