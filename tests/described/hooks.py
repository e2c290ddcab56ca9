"""What a schema cannot say: a cursor comes from an earlier answer for the same listing, and excludes page and as_of.

A request that is meant to be taken goes without one; whatever else it has must then be taken. Requests that are meant to
be refused keep theirs.
"""

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.meta is not None and case.meta.generation.mode.is_positive and case.query:
        case.query.pop("cursor", None)
