"""How long reports take over ten million settled rows: `make bench-reports`, or `python -m tests.benchmarks.reports`.

90 days of 200 tenants with 1,000 keys on 5 deployments, 4 proposers and 3 workloads, on SQLite and on PostgreSQL. The
rows are made up, the roll-ups are made of them by the code that the gateway uses. Then a fixed mix of reports is asked
half an hour after the last hour that is rolled up:

    cold   each in a fresh process, after the database started anew and the system dropped its page cache (as root)
    warm   each again and again in one process

Exit code 1 where a p95 is a second or more, or where a report would read rows or sums without an index.
"""

import argparse
import asyncio
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table as Shown
from sqlalchemy import Table

from storage import Database
from storage.models import EPOCH, rollup_state, usage_series
from storage.rollups.usage_rollup import UsageRollUp
from storage.rollups.watermark import DAY, floor
from storage.usage import Usage
from tests.benchmarks.report_mix import MIX
from tests.benchmarks.report_rows import END, Rows, as_object
from tests.benchmarks.report_store import PostgresStore, SqliteStore, Store, insert_values
from tests.storage.plans import plans_of
from tests.storage.postgres import Cluster

MODULE = "tests.benchmarks.reports"
BAR = 1.0
"""Seconds, of the p95."""
CACHES = Path("/proc/sys/vm/drop_caches")


@dataclass(frozen=True)
class Plan:
    rows: int
    days: int
    cold: int
    """Times that each report is asked cold."""
    warm: int


@dataclass
class Found:
    database: str
    size_gb: float
    is_page_cache_dropped: bool
    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """cold | warm → report → each time."""
    without_index: list[str] = field(default_factory=list)

    def p(self, how: str, percent: int) -> float:
        every = [one for times in self.seconds[how].values() for one in times]
        return statistics.quantiles(every, n=100)[percent - 1]


def main() -> int:
    arguments = _arguments()
    if arguments.ask:
        url, name = arguments.ask
        print(json.dumps(asyncio.run(_ask(url, name, 1))))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    plan = Plan(arguments.rows, arguments.days, 1 if arguments.quick else 3, 5 if arguments.quick else 20)
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="specgate-reports-", dir=arguments.folder))
        )
        folder.chmod(0o755)
        stores: list[Store] = []
        if "sqlite" in arguments.databases:
            stores.append(SqliteStore(folder))
        if "postgres" in arguments.databases:
            stores.append(PostgresStore(_server(folder / "postgres", stack)))
        console = Console(stderr=True)
        fill(stores, plan, console)
        found = [measure(store, plan, folder, console) for store in stores]
    told = _told(plan, found)
    print(json.dumps(told, indent=2) if arguments.json else "", end="")
    _show(found, Console(stderr=arguments.json))
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(told, indent=2) + "\n")
    return 0 if all(_holds(one) for one in found) else 1


def _server(folder: Path, stack: ExitStack) -> Cluster:
    folder.mkdir()
    server = Cluster(folder)
    stack.callback(server.stop)
    server.start()
    return server


def fill(stores: Sequence[Store], plan: Plan, console: Console) -> None:
    """Rows and hours as they are made, then days from the hours of the first database, then the watermark."""
    made, jsons, known = Rows(plan.rows, plan.days), dict[int, tuple[str, ...]](), set[int]()
    with Progress(console=console) as progress:
        task = progress.add_task("rows and hours", total=made.hours)
        for at, rows in made.by_hour():
            hour = UsageRollUp().hour(at)
            for row in rows:
                hour.add_row(as_object(row))
            tuples = [made.as_tuple(row, jsons) for row in rows]
            sums = [_new(table, values, known) for table, values in hour.rows()] if at < END else []
            for store in stores:
                store.insert("ledger_entries", made.order, tuples)
                for table, values in sums:
                    insert_values(store, table, values)
                store.commit()
            progress.advance(task)
        days = range((floor(END, DAY) - floor(made.start, DAY)) // DAY)
        for number in progress.track(days, description="days"):
            asyncio.run(_roll_day(stores, floor(made.start, DAY) + number * DAY))
        state = {
            "name": "usage",
            "owner": "",
            "lease_until": EPOCH,
            "hours_through": END,
            "days_through": floor(END, DAY),
        }
        for store in progress.track(stores, description="indexes"):
            insert_values(store, rollup_state, [state])
            store.commit()
            store.finish()


async def _roll_day(stores: Sequence[Store], at: datetime) -> None:
    db = await Database.open(stores[0].url)
    async with db.view() as session:
        written = [one async for one in UsageRollUp().day(session, at)]
    await db.close()
    for store in stores:
        for table, rows in written:
            insert_values(store, table, rows)
        store.commit()


def _new(table: Table, rows: Sequence[Mapping[str, Any]], known: set[int]) -> tuple[Table, Sequence[Mapping[str, Any]]]:
    """Series are written once."""
    if table is not usage_series:
        return table, rows
    fresh = [row for row in rows if row["id"] not in known]
    known.update(row["id"] for row in fresh)
    return table, fresh


def measure(store: Store, plan: Plan, folder: Path, console: Console) -> Found:
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e9
    found = Found(store.name, round(size, 2), os.access(CACHES, os.W_OK))
    found.seconds = {"cold": {}, "warm": {}}
    found.without_index = asyncio.run(_without_index(store.url))
    for name in console_track(console, f"{store.name}: cold"):
        found.seconds["cold"][name] = [_cold(store, name) for _ in range(plan.cold)]
    for name in console_track(console, f"{store.name}: warm"):
        found.seconds["warm"][name] = asyncio.run(_ask(store.url, name, plan.warm + 2))[2:]
    return found


def console_track(console: Console, what: str) -> Iterator[str]:
    with Progress(console=console) as progress:
        yield from progress.track(MIX, description=what)


def _cold(store: Store, name: str) -> float:
    store.make_cold()
    os.sync()
    if os.access(CACHES, os.W_OK):
        CACHES.write_text("3")
    command = [sys.executable, "-m", MODULE, "--ask", store.url, name]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=300)
    return float(json.loads(done.stdout)[0])


async def _ask(url: str, name: str, times: int) -> list[float]:
    """Seconds from the question to the rows, on a database that is open."""
    db = await Database.open(url)
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        async with db.view() as session:
            rows = await Usage(session).rows(MIX[name])
        seconds.append(time.perf_counter() - began)
        assert rows
    await db.close()
    return seconds


async def _without_index(url: str) -> list[str]:
    """Reports that would read every row, or one tenant's that would read every tenant's sums."""
    db = await Database.open(url)
    found = []
    async with db.view() as session:
        for name, query in MIX.items():
            tables = ["ledger_entries", *(["usage_hours", "usage_days"] if query.filters else [])]
            for plan in await plans_of(session, query):
                if any(f"{scan} {table}" in plan for scan in ("SCAN", "Seq Scan on") for table in tables):
                    found.append(f"{name}: {plan}")
    await db.close()
    return found


def _holds(found: Found) -> bool:
    return not found.without_index and all(found.p(how, 95) < BAR for how in ("cold", "warm"))


def _told(plan: Plan, found: Sequence[Found]) -> dict[str, Any]:
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"
    p95 = {one.database: {how: [one.p(how, 50), one.p(how, 95)] for how in one.seconds} for one in found}
    return {
        "command": " ".join(["python -m", MODULE, *sys.argv[1:]]),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": machine,
        "load": list(os.getloadavg()),
        "python": platform.python_version(),
        "plan": asdict(plan),
        "p50_p95_seconds": p95,
        "databases": [asdict(one) for one in found],
    }


def _show(found: Sequence[Found], console: Console) -> None:
    for one in found:
        table = Shown(
            "report", "cold, slowest", "warm, median", "warm, slowest", title=f"{one.database}, {one.size_gb} GB"
        )
        for name in MIX:
            cold, warm = one.seconds["cold"][name], one.seconds["warm"][name]
            table.add_row(name, *(f"{s * 1000:,.0f} ms" for s in (max(cold), statistics.median(warm), max(warm))))
        console.print(table)
        for how in ("cold", "warm"):
            console.print(
                f"{how}: p50 {one.p(how, 50) * 1000:,.0f} ms, p95 {one.p(how, 95) * 1000:,.0f} ms (bar 1,000 ms)"
            )
        for plan in one.without_index:
            console.print(f"[red]without an index:[/red] {plan}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    parser.add_argument("--folder", help="where the databases are made: 30 GB for ten million rows in both")
    parser.add_argument("--quick", action="store_true", help="ask less often")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", help="a file for the result, as JSON")
    parser.add_argument("--ask", nargs=2, metavar=("URL", "REPORT"), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
