"""Rules that the schema cannot express.

A cursor comes from an earlier answer for the same listing, and excludes page and as_of. Stable numbering excludes order,
as_of and a cursor. A date excludes page and as_of. So the first hook removes the cursor, and what stable numbering and a
date exclude, from requests that must be accepted. Requests that must be refused keep them. A GTIN ends with a check
digit, so the hook puts the right one there. The limits of attributes and of an author's id are in bytes, so the hook
removes long ones. A comment and a name have a visible character, new ids begin and end with one, so the hook replaces those that may not. `.` and `..` are neither products nor authors: in a path they would lead elsewhere. The entity tag of
a record comes from an earlier answer, and requests without one are accepted: so the hook removes it.

A page beyond the ranked comments is 503 while others are still to be ranked. So the second hook asks again, as that
answer says. Only an answer that lasts is judged.
"""

import json
import time

import requests
import schemathesis
from schemathesis.core.transport import Response

# Ranking takes milliseconds, on a loaded machine seconds. Only a stack that has stopped ranking takes longer.
RANKED_WITHIN_SECONDS = 60


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if case.query:
        case.query.pop("cursor", None)
        if "numbering" in case.query:
            case.query.pop("order", None)
            case.query.pop("as_of", None)
        if "date" in case.query:
            case.query.pop("page", None)
            case.query.pop("as_of", None)
        if isinstance(case.query.get("product"), list):
            case.query["product"] = [product for product in case.query["product"] if product not in (".", "..")] or ["p"]
    if case.operation.path == "/api/v1/products/{product}":
        for name in ("If-Match", "If-None-Match"):
            case.headers.pop(name, None)
    if isinstance(case.body, dict) and isinstance(case.body.get("gtin"), str):
        case.body["gtin"] = with_check_digit(case.body["gtin"])
    for field in ("body", "name"):
        if isinstance(case.body, dict) and is_blank(case.body.get(field)):
            case.body[field] = "Text"
    if isinstance(case.body, dict) and is_no_author(case.body.get("author_id")):
        del case.body["author_id"]
    if case.method in ("POST", "PUT") and has_hidden_end((case.path_parameters or {}).get("product")):
        case.path_parameters["product"] = "espresso-machine"
    if is_no_author((case.path_parameters or {}).get("author_id")):
        case.path_parameters["author_id"] = "customer-4711"
    if isinstance(case.body, dict) and len(json.dumps(case.body.get("attributes"), ensure_ascii=False).encode()) > 3000:
        del case.body["attributes"]


def is_no_author(author_id):
    return has_hidden_end(author_id) or isinstance(author_id, str) and len(author_id.encode()) > 128


def has_hidden_end(text):
    return isinstance(text, str) and not (text[:1].isalnum() and text[-1:].isalnum())


def is_blank(text):
    return isinstance(text, str) and not any(character.isalnum() for character in text)


def with_check_digit(digits):
    weights = [3 if place % 2 == 0 else 1 for place in range(len(digits) - 1)]
    total = sum(int(digit) * weight for digit, weight in zip(reversed(digits[:-1]), weights))
    return digits[:-1] + str(-total % 10)


@schemathesis.hook
def after_call(context, case, response):
    end = time.monotonic() + RANKED_WITHIN_SECONDS
    while is_not_yet_listed(response) and time.monotonic() < end:
        time.sleep(0.1)
        with requests.Session() as session:
            answer = session.send(response.request, allow_redirects=False)
        again = Response.from_requests(answer, verify=response.verify)
        for field in Response.__slots__:
            setattr(response, field, getattr(again, field))


def is_not_yet_listed(response):
    return response.status_code == 503 and b'"urn:pagemark:problem:not-yet-listed"' in response.content
