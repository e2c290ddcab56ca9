"""Rules that the schema cannot express. A cursor comes from an earlier answer for the same listing, and excludes page and
as_of. Stable numbering excludes order, as_of and a cursor. A date excludes page and as_of. So this hook removes the
cursor, and what stable numbering and a date exclude, from requests that must be accepted. Requests that must be refused
keep them.
"""

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.meta is not None and case.meta.generation.mode.is_positive and case.query:
        case.query.pop("cursor", None)
        if "numbering" in case.query:
            case.query.pop("order", None)
            case.query.pop("as_of", None)
        if "date" in case.query:
            case.query.pop("page", None)
            case.query.pop("as_of", None)
