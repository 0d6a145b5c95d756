"""One request as the ledger knows it: its entries, what it used, how long it took and what it cost. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row

from gateway.openai.figures import speculation_object, timings_object
from gateway.openai.organization_objects import seconds
from gateway.openai.translate import usage_object
from storage.entries import figures_in, open_entry_from
from storage.money import FREE, Price, total
from storage.prices import Pinned
from storage.values import default_project

Object = dict[str, Any]


def request_object(entries: Sequence[Row[Any]], prices: Mapping[Pinned, Price], currency: str) -> Object:
    """`entries`: all of one request, in their order."""
    opened = entries[0]
    settled = next((row for row in entries if row.kind == "settle"), None)
    last = settled if settled is not None else entries[-1]
    figures, entry = figures_in(last), open_entry_from(opened)
    adjustments = [row for row in entries if row.kind == "adjust"]
    lines = prices.get((opened.deployment_id, opened.price_version), FREE).lines(figures.used) if settled else ()
    return {
        "object": "usage.request",
        "id": opened.request_id,
        "organization_id": opened.tenant_id,
        "project_id": opened.project_id or default_project(opened.tenant_id),
        "api_key_id": opened.key_id,
        "model": opened.model,
        "deployment_id": opened.deployment_id,
        "route": opened.route,
        "workload": opened.workload,
        "status": "running" if settled is None else "settled",
        "outcome": last.outcome,
        "created_at": seconds(opened.at),
        "settled_at": seconds(settled.at) if settled is not None else None,
        "entries": [_entry(row) for row in entries],
        "usage": usage_object(figures),
        "timings": timings_object(figures),
        "speculation": speculation_object(entry, figures),
        "cost": {
            "currency": currency,
            "price_version": opened.price_version,
            "lines": [
                {"item": one.item, "tokens": one.tokens, "price": one.price, "micros": one.micros} for one in lines
            ],
            "adjustments": [
                {"id": row.entry_id, "micros": row.micros, "reason": row.reason, "created_at": seconds(row.at)}
                for row in adjustments
            ],
            "total_micros": total(lines) + sum(row.micros for row in adjustments),
        },
    }


def _entry(row: Row[Any]) -> Object:
    """How far the request had come."""
    counts = {name: row._mapping[name] for name in ("generated_tokens", "delivered_tokens", "visible_tokens")}
    return {"id": row.entry_id, "kind": row.kind, "at": seconds(row.at), "outcome": row.outcome, **counts}
