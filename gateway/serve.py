"""One gateway, from its settings to its last settled answer.

    database → keys and secret → what dead runs left → parts → sockets → answers … drain → books closed

How engines are started is handed in; the gateway answers (and says what it waits for) before any is ready.
"""

import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from fastapi import FastAPI

from gateway.admission import Admission
from gateway.app import build_app
from gateway.auth import Authenticator
from gateway.books import Books
from gateway.bootstrap import Credentials, bootstrap, check_presets, new_epoch, settle_dead
from gateway.currency import settle_currency
from gateway.deployments.first import Remark, ensure_first
from gateway.deployments.fleet import Fleet
from gateway.deployments.host import StartEngine
from gateway.drain import Drain
from gateway.export.exporter import exporting
from gateway.holdout import Holdout
from gateway.home import prepare_home
from gateway.last_used import LastUsed
from gateway.limits.opening import open_limiter
from gateway.limits.roster import Roster
from gateway.limits.terms import TermsOf
from gateway.metrics.registry import Metrics
from gateway.parts import Parts
from gateway.retention import forgetting
from gateway.rollup_job import rolling_up
from gateway.routing import Router
from gateway.server import listen, serve_until_signal, url_of
from gateway.settings import Settings, presets, split_bind
from gateway.spool import open_spool
from gateway.workloads import Workloads
from storage import Database


@dataclass(frozen=True, slots=True)
class Started:
    """What there is to tell once it listens."""

    url: str
    admin_url: str | None
    """None: the admin routes are not served."""
    credentials: Credentials
    durability: str
    recovered: int
    """Requests that a dead run left open, settled now."""
    fleet: Fleet
    remarks: tuple[Remark, ...] = ()
    """What became of settings that a deployment has too."""


async def serve(
    settings: Settings,
    start: StartEngine,
    announce: Callable[[Started], None],
    listeners: Sequence[socket.socket] | None = None,
) -> None:
    """Returns after a signal, when everything open was answered or cut, and settled. Raises PortTaken, HomeRefused.

    `listeners`: sockets that a parent opened, the public one first, then that of the admin routes if they have one.
    """
    async with AsyncExitStack() as stack:
        listener, *others = listeners or _listen(settings)
        admin = others[0] if others else None
        for one in (listener, *others):
            stack.enter_context(one)
        parts, told = await stack.enter_async_context(open_parts(settings, start))
        apps: dict[socket.socket, FastAPI] = {listener: build_app(parts)}
        if admin is not None:
            apps[admin] = build_app(parts, with_public=False, with_admin=True)
        url = url_of(listener)
        admin_url = url_of(admin) if admin else url if settings.serves_admin else None
        started = Started(
            url, admin_url, told.credentials, parts.db.durability, told.recovered, parts.fleet, tuple(told.remarks)
        )
        await serve_until_signal(apps, parts.drain, settings, lambda: announce(started))


@dataclass(frozen=True, slots=True)
class Opened:
    """What there is to know of parts that were just made."""

    credentials: Credentials
    recovered: int
    remarks: list[Remark]


@asynccontextmanager
async def open_parts(settings: Settings, start: StartEngine) -> AsyncIterator[tuple[Parts, Opened]]:
    async with AsyncExitStack() as stack:
        prepare_home(settings.home)
        check_presets(settings.home, **presets(settings))
        db = await Database.open(settings.database, durability=settings.durability)
        stack.push_async_callback(db.close)
        await settle_currency(db, settings.currency)
        credentials = await _credentials(settings, db)
        owner = new_epoch(credentials)
        books = Books(db, owner, open_spool(settings, db.durability), settings.storage_seconds)
        stack.push_async_callback(books.close, settings.settle_seconds)
        await books.recover()
        recovered = await settle_dead(db, owner)
        roster = Roster(db, owner, settings.lease_seconds)
        await roster.join()
        stack.push_async_callback(roster.leave)
        limiter = await stack.enter_async_context(open_limiter(settings, db, roster.num_live))
        admission = Admission(limiter, TermsOf(db, settings.storage_seconds), owner, settings.storage_seconds)
        stack.push_async_callback(admission.close, settings.settle_seconds)
        await stack.enter_async_context(roster.beating(admission))
        exporter = await stack.enter_async_context(exporting(settings, db, owner))
        await stack.enter_async_context(rolling_up(db, owner))
        await stack.enter_async_context(forgetting(db, settings))
        last_used = LastUsed(db)
        stack.push_async_callback(last_used.close)
        remarks = await ensure_first(db, settings, credentials.secret)
        fleet = await stack.enter_async_context(Fleet(db, start, settings.drain_seconds))
        parts = Parts(
            settings=settings,
            db=db,
            authenticator=Authenticator(db, patience=settings.storage_seconds, last_used=last_used),
            router=Router(lambda: fleet.routes, credentials.secret),
            fleet=fleet,
            books=books,
            limiter=limiter,
            admission=admission,
            drain=Drain(),
            metrics=Metrics.of_this_process(),
            holdout=Holdout(credentials.secret),
            workloads=Workloads(db, settings.storage_seconds),
            secret=credentials.secret,
            exporter=exporter,
        )
        yield parts, Opened(credentials, recovered, remarks)


def _listen(settings: Settings) -> list[socket.socket]:
    listener = listen(settings.host, settings.port)
    if settings.admin_bind is None:
        return [listener]
    try:
        return [listener, listen(*split_bind(settings.admin_bind), "SPECGATE_ADMIN_BIND")]
    except BaseException:
        listener.close()
        raise


async def _credentials(settings: Settings, db: Database) -> Credentials:
    return await bootstrap(settings.home, db, **presets(settings))
