"""Rules that the schema cannot express. A cursor comes from an earlier answer for the same listing, and excludes page and
as_of. Stable numbering excludes order, as_of and a cursor. So this hook removes the cursor, and what stable numbering
excludes, from requests that must be accepted. Requests that must be refused keep them. `.` and `..` are not products: in
a path they would lead elsewhere.
"""

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.meta is not None and case.meta.generation.mode.is_positive and case.query:
        case.query.pop("cursor", None)
        if "numbering" in case.query:
            case.query.pop("order", None)
            case.query.pop("as_of", None)
        if isinstance(case.query.get("product"), list):
            case.query["product"] = [product for product in case.query["product"] if product not in (".", "..")] or ["p"]
