"""Filters and values of items, drawn at random, and the document that holds such a value."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from mongomem.store.documents.value import encode_value

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, 2.0**60])
    | st.sampled_from(["", "a", "1"])
)
data = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "b", "0"]), inner, max_size=2)
    ),
    max_leaves=5,
)
operators = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
tests = st.one_of(
    st.tuples(operators | st.just("$contains"), data),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(data, max_size=3)),
    st.tuples(st.just("$exists"), st.booleans()),
)
expressions = st.lists(tests, min_size=1, max_size=2).map(dict)
negations = expressions | expressions.map(lambda expression: {"$not": expression})
conditions = data | negations | negations.map(lambda expression: {"b": expression})
names = st.sampled_from(["a", "b", "0", "c", "a.b", "a.b.a", "b.0", "a.c", "0.a", ".a", "a."])
plain_filters = st.dictionaries(names, conditions, max_size=2)
filters = st.recursive(
    plain_filters,
    lambda inner: (
        st.dictionaries(
            st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=1, max_size=2), min_size=1
        )
        | inner.map(lambda negated: {"$not": negated})
    ),
    max_leaves=3,
)
values = st.dictionaries(st.sampled_from(["a", "b", "0", "a.b", "b.0", ""]), data, max_size=3)


def document_of(value: dict[str, Any]) -> dict[str, Any]:
    encoded = encode_value(value, "item")
    return {
        "value": encoded.readable,
        **({"exact": encoded.exact} if encoded.exact is not None else {}),
    }
