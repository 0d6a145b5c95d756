"""GET /livez: this process answers. GET /readyz: it takes requests; else 503 and what it waits for."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from gateway.errors import Unavailable
from gateway.export.exporter import ExportState
from gateway.parts import Parts, parts_of
from storage import StorageAway

router = APIRouter()


@router.get("/livez")
async def livez() -> dict[str, str]:
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: Request) -> JSONResponse:
    parts = parts_of(request)
    waits_for = await _waits_for(parts)
    told: dict[str, Any] = {"status": "waiting" if waits_for else "ready", "durability": parts.db.durability}
    told["deployments"] = {name: asdict(state) for name, state in parts.fleet.states.items()}
    if parts.exporter is not None:
        told["export"] = _export(parts.exporter.state)
    if waits_for is None:
        return JSONResponse(told)
    refusal = Unavailable("not_ready", waits_for)
    return JSONResponse(told | {"waits_for": waits_for} | refusal.body(), 503, refusal.headers)


def _export(state: ExportState) -> dict[str, Any]:
    return {"phase": state.phase, "detail": state.detail, "behind_seconds": round(state.behind_seconds, 1)}


async def _waits_for(parts: Parts) -> str | None:
    if parts.drain.is_leaving:
        return "This gateway is shutting down."
    try:
        await parts.db.ping()
    except StorageAway:
        return "The database does not answer."
    state = parts.fleet.state
    return None if state.phase == "ready" else state.detail
