"""All that a doctor looks at, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from mongomem.engine.commands import Plan
from mongomem.inspection.context import Context
from mongomem.inspection.examination.collections import examine_collections
from mongomem.inspection.examination.findings import Findings
from mongomem.inspection.examination.samples import examine_samples
from mongomem.inspection.examination.server import examine_server
from mongomem.inspection.examination.weights import examine_weights

Look = Callable[[], Plan[object]]


def looks(context: Context, findings: Findings, *, may_be_new: bool) -> Iterator[tuple[str, Look]]:
    """Yield what is looked at, each with the plan that adds what it sees to the findings."""
    yield "the server", partial(examine_server, context, findings)
    yield "the collections", partial(examine_collections, context, findings, may_be_new=may_be_new)
    yield "threads and items", partial(examine_weights, context, findings)
    yield "samples of documents", partial(examine_samples, context, findings)
