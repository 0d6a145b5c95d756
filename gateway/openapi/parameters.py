"""What a query string or a header may say, as OpenAPI parameters."""

from typing import Any

from gateway.openai.fields import NO_NUL
from gateway.query import MAX_PAGE
from gateway.usage_query import COMPLETIONS as OF_COMPLETIONS
from gateway.usage_query import COSTS as OF_COSTS
from gateway.usage_query import LATEST, Words
from gateway.usage_query import SPECULATION as OF_SPECULATION

Object = dict[str, Any]
TEXT: Object = {"type": "string", "minLength": 1, "pattern": NO_NUL}
FLAG: Object = {"type": "boolean"}
SECOND: Object = {"type": "integer", "minimum": 0, "maximum": LATEST - 2}
"""There is always a second after it."""


def query(name: str, schema: Object, about: str = "", *, required: bool = False) -> Object:
    return {"name": name, "in": "query", "schema": schema, "required": required} | _about(about)


def header(name: str, schema: Object, about: str, *, required: bool = False) -> Object:
    return {"name": name, "in": "header", "schema": schema, "required": required, "description": about}


def several(schema: Object) -> Object:
    return {"type": "array", "items": schema}


def _about(text: str) -> Object:
    return {"description": text} if text else {}


PAGE = (
    query("after", TEXT, "The last id of the page before."),
    query("limit", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE}),
)
BEFORE = query("before", TEXT, "The first id of the page after.")
ORDER = query("order", {"enum": ["asc", "desc"]})
ARCHIVED = query("include_archived", FLAG)
ACCESS = query("owner_project_access", {"enum": ["active", "inactive", "any"]})
DRY_RUN = query("dry_run", FLAG, "Say what would change, and change nothing.")
END = query("end_time", {"type": "integer", "minimum": 1, "maximum": LATEST - 1}, "After start_time; exclusive.")
FORMAT = query("format", {"enum": ["json", "csv"]}, "Or as Accept says.")


def report(words: Words) -> tuple[Object, ...]:
    """What one of the usage reports may be asked."""
    versions = several({"type": "integer", "minimum": 0, "maximum": 2**31 - 1})
    return (
        query("start_time", SECOND, "Unix seconds, UTC; inclusive.", required=True),
        END,
        query("bucket_width", {"enum": list(words.widths)}),
        query("limit", {"type": "integer", "minimum": 1, "maximum": max(most for *_, most in words.widths.values())}),
        query("page", {"type": "string", "pattern": r"^page_[0-9]{1,12}$"}, "next_page of the same query."),
        query("group_by", several({"enum": list(words.groups)})),
        *(query(name, versions if name == "drafter_versions" else several(TEXT)) for name in words.filters),
        FORMAT,
    )


COMPLETIONS = (*report(OF_COMPLETIONS), query("batch", FLAG))
SPECULATION = report(OF_SPECULATION)
COSTS = report(OF_COSTS)
ENTRIES = (
    query("start_time", SECOND, "Unix seconds, UTC; inclusive."),
    END,
    query("after", TEXT, "The last id of the page before."),
    query("limit", {"type": "integer", "minimum": 1, "maximum": 1000}),
    FORMAT,
)
AUDIT = (
    *PAGE,
    BEFORE,
    query("tenant_only", FLAG),
    *(query(f"effective_at[{bound}]", SECOND) for bound in ("gt", "lte")),
    *(query(f"effective_at[{bound}]", {**SECOND, "maximum": LATEST - 1}) for bound in ("gte", "lt")),
    *(query(name, several(TEXT)) for name in ("event_types", "actor_ids", "project_ids", "resource_ids")),
)
MONTH = query(
    "month", {"type": "string", "pattern": r"^(19[7-9][0-9]|[2-8][0-9]{3})-(0[1-9]|1[0-2])$"}, "UTC.", required=True
)
ORGANIZATION = header("OpenAI-Organization", TEXT, "For operators: the tenant to act in.")
IDEMPOTENCY = header(
    "Idempotency-Key",
    {"type": "string", "pattern": r"^[\x21-\x7e]{1,255}$"},
    "The client's name for this request: within 24 hours it runs once.",
)
REASON = header("x-specgate-reason", {"type": "string"}, "Why; or in the body.")
IF_MATCH = header(
    "If-Match", {"type": "string", "pattern": r'^"[0-9]{1,9}"$'}, "The ETag of what was read.", required=True
)
MAY_MATCH = IF_MATCH | {"required": False}
