"""What the gateway adds to a request: `make bench`, or `python -m tests.benchmarks.gateway_overhead --json`.

Four processes on this machine: a fake engine, a bare FastAPI relay (`relay` below: same server, same HTTP client, no
keys, no ledger), the gateway as `specgate serve` starts it (authentication, limits and ledger on, SQLite), and this
client. Rounds go round the targets, so that what else the machine does falls on all of them alike. The relay is what
FastAPI, uvicorn and httpx make of it as they come; the gateway has the same three, and its own sockets beneath httpx.

    added        what a target takes − what the engine asked directly takes, by medians within a round
    non-stream   one answer of 16 tokens that the engine has at once: while a real one generates, the gateway's work on
                 all tokens but the last costs the client nothing
    a chunk      seconds from the engine's sending to the client's reading of one chunk of a paced stream

    memory       over a soak of requests of every kind (`soak.py`), the line fitted after its first fifth

Bars are ratios, so that they hold on any machine; milliseconds are reported. A whole run (some six minutes) is kept in
`results/`. Exit code 1 where a bar is missed.
"""

import argparse
import asyncio
import io
import json
import random
import socket
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI, Request
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from starlette.responses import Response, StreamingResponse

from tests.benchmarks import targets
from tests.benchmarks.results import save, where
from tests.benchmarks.soak import SAMPLES, Memory, soak
from tests.benchmarks.targets import CHAT, Target, body
from tests.benchmarks.wire_client import Connection, Refused

MODULE = "tests.benchmarks.gateway_overhead"
ADDED_BAR, CHUNK_BAR, TAIL_BAR, MEMORY_BAR = 2.0, 1.5, 5.0, 1.02


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
    memory: Memory | None = None


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
        while free and not free[-1].is_open:
            free.pop().close()
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
                task = progress.add_task(f"soak, {plan.soak:,} requests", total=SAMPLES)
                ours = measured[2]
                rows[ours.name].memory = await soak(ours, plan.soak, lambda: progress.advance(task))
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
    if ours.memory:
        told["memory at the end, times after a fifth"] = (ours.memory.growth, MEMORY_BAR)
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
        if row.memory:
            per_request = f"{row.memory.slope:+.1f} bytes a request after a fifth, {row.memory.refused} refused"
            console.print(f"{name}: {row.memory.rss[-1] / 2**20:.1f} MiB after {row.memory.requests:,}, {per_request}")
    for name, (reached, bar) in bars(rows).items():
        console.print(f"{name}: {reached:.2f} (at most {bar:g}) {'held' if reached <= bar else 'MISSED'}")


def run(arguments: argparse.Namespace) -> int:
    quick = Plan(rounds=3, requests=60, streams=1, load_seconds=2.0, soak=0)
    plan = quick if arguments.quick else Plan(rounds=arguments.rounds, soak=arguments.soak)
    console = Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 130)
    told = where(MODULE)
    rows = asyncio.run(measure(plan, console))
    reached = bars(rows)
    figures = told | {"plan": asdict(plan), "targets": {name: asdict(row) for name, row in rows.items()}}
    figures |= {"bars": reached}
    shown = table_of(told, rows)
    print(json.dumps(figures, indent=2) if arguments.json else shown)
    if not arguments.quick:
        console.print(f"Kept in {save('gateway_overhead', figures, shown)}")
    return 0 if all(value <= bar for value, bar in reached.values()) else 1


def table_of(told: dict[str, Any], rows: dict[str, Row]) -> str:
    paper = Console(file=io.StringIO(), width=130)
    paper.print(", ".join(f"{name} {value}" for name, value in told.items()))
    report(rows, paper)
    assert isinstance(paper.file, io.StringIO)
    return paper.file.getvalue()


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
