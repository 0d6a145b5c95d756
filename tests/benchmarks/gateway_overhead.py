"""What the gateway adds to a request: `make bench`, or `python -m tests.benchmarks.gateway_overhead --json`.

Four processes on this machine: a fake engine, a bare FastAPI relay (`relay` below: same server, same HTTP client, no
keys, no ledger), the gateway as `specgate serve` starts it (authentication, limits and ledger on, SQLite), and this
client. Rounds go round the targets, so that what else the machine does falls on all of them alike.

    added        what a target takes − what the engine asked directly takes, by medians within a round
    non-stream   one answer of 16 tokens that the engine has at once: while a real one generates, the gateway's work on
                 all tokens but the last costs the client nothing
    a chunk      seconds from the engine's sending to the client's reading of one chunk of a paced stream

Bars are ratios, so that they hold on any machine; milliseconds are reported. Exit code 1 where a bar is missed.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import socket
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI, Request
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from starlette.responses import Response, StreamingResponse

from tests.benchmarks import targets
from tests.benchmarks.targets import Target
from tests.benchmarks.wire_client import Connection, Refused, request

MODULE = "tests.benchmarks.gateway_overhead"
CHAT = "/v1/chat/completions"
ADDED_BAR, CHUNK_BAR, TAIL_BAR, MEMORY_BAR = 2.0, 1.5, 5.0, 1.05


def relay(upstream: str) -> FastAPI:
    """The least that stands between a client and an engine in this stack."""
    app = FastAPI()
    client = httpx.AsyncClient(base_url=upstream, timeout=None, trust_env=False)

    @app.post(CHAT)
    async def chat(request: Request) -> Response:
        body = await request.json()
        headers = {"content-type": "application/json"}
        sending = client.build_request("POST", CHAT, content=json.dumps(body), headers=headers)
        response = await client.send(sending, stream=True)
        if not body.get("stream"):
            return Response(await response.aread(), media_type="application/json")

        async def chunks() -> AsyncIterator[bytes]:
            async for chunk in response.aiter_bytes():
                yield chunk
            await response.aclose()

        return StreamingResponse(chunks(), media_type="text/event-stream")

    return app


@dataclass(frozen=True)
class Plan:
    rounds: int = 9
    requests: int = 150
    """Of a target in a round."""
    streams: int = 3
    chunks: int = 100
    load_seconds: float = 6.0
    soak: int = 50_000


@dataclass
class Row:
    """One target's figures, seconds. Lists have a value a round."""

    p50: list[float] = field(default_factory=list)
    chunk: list[float] = field(default_factory=list)
    peak: float | None = None
    """Answers a second."""
    refused: int = 0
    """At the peak, with a 503: its ledger did not answer in time."""
    load_p50: float | None = None
    load_p99: float | None = None
    """At 30 % of the peak."""
    rss: list[int] = field(default_factory=list)
    """Bytes, sampled ten times along the soak."""


def body(target: Target, chunks: int = 0) -> bytes:
    asked: dict[str, Any] = {"model": target.model, "messages": [{"role": "user", "content": "Say hello to me."}]}
    asked |= {"max_tokens": 64} | ({"stream": True, "seed": chunks} if chunks else {})
    return request(CHAT, target.key, asked)


async def one_round(target: Target, plan: Plan, row: Row) -> None:
    connection = await Connection.open(target.port)
    whole, streamed = body(target), body(target, plan.chunks)
    for _ in range(10):
        await connection.ask(whole)
    row.p50.append(statistics.median([await connection.ask(whole) for _ in range(plan.requests)]))
    delays = [delay for _ in range(plan.streams) for delay in await connection.stream(streamed)]
    assert len(delays) == plan.streams * plan.chunks
    row.chunk.append(statistics.median(delays))
    connection.close()


async def at_most(target: Target, seconds: float, clients: int = 16) -> tuple[float, int]:
    """Answers a second that so many clients get, each asking again at once; and how many were refused."""
    ending, answered, refused = time.perf_counter() + seconds, 0, 0

    async def ask() -> None:
        nonlocal answered, refused
        connection, raw = await Connection.open(target.port), body(target)
        while time.perf_counter() < ending:
            try:
                await connection.ask(raw)
                answered += 1
            except Refused:
                refused += 1
        connection.close()

    await asyncio.gather(*(ask() for _ in range(clients)))
    return answered / seconds, refused


async def at_rate(target: Target, rate: float, seconds: float) -> list[float]:
    """Seconds of each request, whose arrivals are a Poisson process: they wait for nobody."""
    free: list[Connection] = []
    taken: list[float] = []
    draw = random.Random(1)

    async def ask() -> None:
        connection = free.pop() if free else await Connection.open(target.port)
        taken.append(await connection.ask(body(target)))
        free.append(connection)

    due, asking = time.perf_counter(), []
    ending = due + seconds
    while due < ending:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        asking.append(asyncio.create_task(ask()))
        due += draw.expovariate(rate)
    await asyncio.gather(*asking)
    for connection in free:
        connection.close()
    return taken


async def under_load(target: Target, plan: Plan, row: Row) -> None:
    await at_most(target, 1.0)
    row.peak, row.refused = await at_most(target, plan.load_seconds)
    taken = await at_rate(target, 0.3 * row.peak, plan.load_seconds * 2)
    row.load_p50, row.load_p99 = statistics.median(taken), quantile(taken, 0.99)


async def soak(target: Target, plan: Plan, row: Row, on_step: Callable[[], None]) -> None:
    """So many requests over eight connections; memory is looked at after each tenth."""

    async def ask(count: int) -> None:
        connection, raw = await Connection.open(target.port), body(target)
        for _ in range(count):
            await connection.ask(raw)
        connection.close()

    for _ in range(10):
        await asyncio.gather(*(ask(plan.soak // 80) for _ in range(8)))
        row.rss.append(target.rss)
        on_step()


def quantile(values: list[float], q: float) -> float:
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def added(row: Row, direct: Row, name: str) -> float:
    """Median over rounds of what was added within each."""
    return statistics.median(a - b for a, b in zip(getattr(row, name), getattr(direct, name), strict=True))


async def measure(plan: Plan, console: Console) -> dict[str, Row]:
    with ExitStack() as stack:
        engine = stack.enter_context(targets.engine())
        several = [
            engine,
            stack.enter_context(targets.relay(engine, MODULE)),
            stack.enter_context(targets.gateway(engine, "process")),
            stack.enter_context(targets.gateway(engine, "power")),
            stack.enter_context(targets.litellm(engine)),
        ]
        measured = [target for target in several if target is not None]
        rows = {target.name: Row() for target in measured}
        with Progress(console=console) as progress:
            task = progress.add_task("rounds", total=plan.rounds * len(measured))
            for number in range(plan.rounds):
                for target in measured[number % len(measured) :] + measured[: number % len(measured)]:
                    await one_round(target, plan, rows[target.name])
                    progress.advance(task)
            task = progress.add_task("load", total=len(measured))
            for target in measured:
                await under_load(target, plan, rows[target.name])
                progress.advance(task)
            if plan.soak:
                task = progress.add_task(f"soak, {plan.soak:,} requests", total=10)
                await soak(measured[2], plan, rows[measured[2].name], lambda: progress.advance(task))
        return rows


def bars(rows: dict[str, Row]) -> dict[str, tuple[float, float]]:
    """What was reached and what may be, each a ratio."""
    direct, bare, ours = rows["direct"], rows["relay"], rows["ours (process)"]
    assert ours.load_p50
    assert ours.load_p99
    told = {
        "added p50, times the relay's": (added(ours, direct, "p50") / added(bare, direct, "p50"), ADDED_BAR),
        "added a chunk, times the relay's": (added(ours, direct, "chunk") / added(bare, direct, "chunk"), CHUNK_BAR),
        "p99 at 30 % of peak, times p50": (ours.load_p99 / ours.load_p50, TAIL_BAR),
    }
    if ours.rss:
        # The first fifth fills pools and caches.
        told["memory at the end, times after a fifth"] = (ours.rss[-1] / ours.rss[1], MEMORY_BAR)
    return told


def report(rows: dict[str, Row], console: Console) -> None:
    table = Table("target", "p50 ms", "added", "a chunk ms", "added", "peak /s", "p50 at 30 %", "p99 at 30 %", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    direct = rows["direct"]
    for name, row in rows.items():
        extra = [added(row, direct, which) for which in ("p50", "chunk")]
        own = [statistics.median(row.p50), statistics.median(row.chunk)]
        shown = [f"{1000 * value:.3f}" for value in (own[0], extra[0], own[1], extra[1])]
        at_load = [f"{1000 * (value or 0):.2f}" for value in (row.load_p50, row.load_p99)]
        table.add_row(name, *shown, f"{row.peak:,.0f}", *at_load)
    console.print(table)
    for name, row in rows.items():
        if row.refused:
            console.print(f"{name}: {row.refused} requests were refused at its peak")
    for name, (reached, bar) in bars(rows).items():
        console.print(f"{name}: {reached:.2f} (at most {bar:g}) {'held' if reached <= bar else 'MISSED'}")


def where() -> dict[str, Any]:
    """What a figure must be read with."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
    }


def run(arguments: argparse.Namespace) -> int:
    quick = Plan(rounds=3, requests=60, streams=1, load_seconds=2.0, soak=0)
    plan = quick if arguments.quick else Plan(rounds=arguments.rounds, soak=arguments.soak)
    console = Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 130)
    told = where()
    rows = asyncio.run(measure(plan, console))
    reached = bars(rows)
    if arguments.json:
        figures = {name: asdict(row) for name, row in rows.items()}
        print(json.dumps(told | {"plan": asdict(plan), "targets": figures, "bars": reached}, indent=2))
    else:
        console.print(", ".join(f"{name} {value}" for name, value in told.items()))
        report(rows, console)
    return 0 if all(value <= bar for value, bar in reached.values()) else 1


def be_the_relay(upstream: str) -> int:
    listener = socket.create_server(("127.0.0.1", 0))
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    config = uvicorn.Config(relay(upstream), lifespan="off", log_level="critical", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--rounds", type=int, default=Plan.rounds)
    parser.add_argument("--soak", type=int, default=Plan.soak, help="requests of the memory run; 0: none")
    parser.add_argument("--quick", action="store_true", help="a look, not a measurement")
    parser.add_argument("--json", action="store_true", help="for programs; progress goes to standard error")
    parser.add_argument("--be-the-relay", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    return be_the_relay(arguments.be_the_relay) if arguments.be_the_relay else run(arguments)


if __name__ == "__main__":
    sys.exit(main())
