"""Digests of places: the text that is hashed is a part of the stored format."""

from __future__ import annotations

import json
from typing import Any

from bson import Int64
from hypothesis import given
from hypothesis import strategies as st

from mongomem.checkpoint.serde.place_digest import _json

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(2**63), 2**63 - 1).map(Int64), st.text()
)


@given(st.recursive(scalars, st.lists))
def test_the_text_is_that_of_json_without_spaces(value: Any) -> None:
    assert _json(value) == json.dumps(value, separators=(",", ":"))
