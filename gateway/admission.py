"""Whether a request may run now: what it may come to is held at every level, corrected, and let go in any case.

    terms → claim → held ──correct──► … ──► released: what was used is counted, the rest given back

Nothing is cut half-way: who waits may leave, reserving, correcting and releasing go on in tasks of their own. A
release that the database cannot take now is tried again until it does.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from gateway.auth import Principal
from gateway.errors import EngineUnavailable, from_storage
from gateway.limits.ask import Ask, Size
from gateway.limits.terms import TermsOf
from gateway.limits.told import error, headers
from storage import StorageError
from storage.limits.limiter import Limiter
from storage.limits.values import Claim, Refusal, Reservation
from storage.money import Used
from storage.values import Figures

log = logging.getLogger("specgate.admission")
T = TypeVar("T")
SOON = 0.05
"""Seconds after which a request that still runs holds no more than it can come to."""


class Grant:
    """A request's leave to run."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.reservation: Reservation | None = None
        """None where no limit applies."""
        self.headers: dict[str, str] = {}
        """For every answer."""
        self.used: Used | None = None
        """None: it never ran."""
        self.is_refused = False
        """It was admitted, and then found to be more than there is."""
        self.correcting: asyncio.Task[Refusal | None] | None = None
        self.lowering: asyncio.TimerHandle | None = None
        """Less is to be held, soon."""
        self.is_corrected = False

    def ran(self, figures: Figures) -> None:
        self.used = figures.used


class Admission:
    """`owner` names this process. `patience`: seconds to wait for the stores."""

    def __init__(self, limiter: Limiter, terms: TermsOf, owner: str, patience: float, retry: float = 1.0) -> None:
        self._limiter, self._terms, self._owner = limiter, terms, owner
        self._patience, self._retry = patience, retry
        self._held: dict[str, Grant] = {}
        self._beating = asyncio.Lock()
        self._work: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def admit(self, principal: Principal, grant: Grant) -> AsyncIterator[None]:
        """Raises RateLimited, QuotaExceeded, StorageUnavailable, StorageFull."""
        ask = grant.ask
        terms = await self._terms.get(principal)
        if not terms.limit_any:
            yield
            return
        if not ask.is_bounded:
            raise EngineUnavailable
        size = ask.guess()
        claim = Claim(ask.request_id, self._owner, terms.subjects, size.input_tokens, size.output_tokens, ask.price)
        await self._reserve(grant, claim)
        try:
            yield
        finally:
            if not self._let_go_now(grant):
                await asyncio.wait({self._go_on(self._let_go(grant))}, timeout=self._patience)

    async def correct(self, grant: Grant, sizes: Sequence[tuple[int, int]]) -> None:
        """Once the engine has counted. Raises RateLimited, QuotaExceeded where it is more than there is.

        Nobody waits for less to be held, and of a request that soon ends the release alone says what it was.
        """
        if grant.is_corrected:
            return
        if grant.reservation is None:
            grant.is_corrected = True
            return
        size = grant.ask.known(sizes)
        if grant.reservation.claim.covers(size.input_tokens, size.output_tokens):
            grant.is_corrected = True
            grant.lowering = asyncio.get_running_loop().call_later(SOON, self._lower, grant, size)
            return
        if grant.correcting is None:
            grant.correcting = self._go_on(self._adjust(grant, size))
        try:
            async with asyncio.timeout(self._patience):
                refused = await asyncio.shield(grant.correcting)
        except (StorageError, TimeoutError) as problem:
            # What is held is nearly as much.
            log.warning("claim not corrected", extra={"fields": _told(grant, problem)})
            refused = None
        grant.is_corrected = True
        if refused:
            grant.is_refused = True
            raise error(refused)

    async def heartbeat(self) -> None:
        """Say that what is held here still runs."""
        async with self._beating:
            held = [grant.reservation for grant in self._held.values() if grant.reservation]
            await self._limiter.heartbeat(held)

    async def close(self, patience: float) -> None:
        """Give what is still being let go a last while."""
        if self._work:
            await asyncio.wait(self._work, timeout=patience)
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    async def _reserve(self, grant: Grant, claim: Claim) -> None:
        answer = self._reserved_now(claim) or await self._reserved(claim)
        if isinstance(answer, Refusal):
            raise error(answer)
        self._held[claim.id] = grant
        grant.reservation, grant.headers = answer, headers(answer.standings)

    def _reserved_now(self, claim: Claim) -> Reservation | Refusal | None:
        try:
            return self._limiter.reserve_now(claim)
        except StorageError as problem:
            raise from_storage(problem) from problem

    async def _reserved(self, claim: Claim) -> Reservation | Refusal:
        reserving = self._go_on(self._limiter.reserve(claim))
        try:
            async with asyncio.timeout(self._patience):
                return await asyncio.shield(reserving)
        except BaseException as problem:
            self._go_on(self._undo(reserving))
            if isinstance(problem, (StorageError, TimeoutError)):
                raise from_storage(problem) from problem
            raise

    async def _undo(self, reserving: "asyncio.Task[Reservation | Refusal]") -> None:
        await asyncio.wait({reserving})
        if not reserving.cancelled() and reserving.exception() is None:
            answer = reserving.result()
            if isinstance(answer, Reservation):
                await self._release(answer, None)

    def _lower(self, grant: Grant, size: Size) -> None:
        grant.correcting = self._go_on(self._lowered(grant, size))

    async def _lowered(self, grant: Grant, size: Size) -> None:
        try:
            await self._adjust(grant, size)
        except StorageError as problem:
            # What is held covers it.
            log.warning("claim not corrected", extra={"fields": _told(grant, problem)})

    async def _adjust(self, grant: Grant, size: Size) -> Refusal | None:
        assert grant.reservation is not None
        answer = await self._limiter.adjust(grant.reservation, size.input_tokens, size.output_tokens)
        if isinstance(answer, Refusal):
            return answer
        grant.reservation = answer
        return None

    def _let_go_now(self, grant: Grant) -> bool:
        """False where something has to be waited for."""
        assert grant.reservation is not None
        if grant.lowering is not None:
            grant.lowering.cancel()
        if grant.correcting is not None or self._beating.locked():
            return False
        try:
            is_released = self._limiter.release_now(grant.reservation, grant.used)
        except StorageError:
            return False
        if is_released:
            self._held.pop(grant.reservation.claim.id, None)
        return is_released

    async def _let_go(self, grant: Grant) -> None:
        if grant.correcting is not None:
            await asyncio.wait({grant.correcting})
        assert grant.reservation is not None
        self._held.pop(grant.reservation.claim.id, None)
        # A heartbeat under way may still say that it runs; it must not say so after the end.
        async with self._beating:
            pass
        await self._release(grant.reservation, grant.used)

    async def _release(self, reservation: Reservation, used: Used | None) -> None:
        while True:
            try:
                return await self._limiter.release(reservation, used)
            except StorageError as problem:
                fields = {"request_id": reservation.claim.id, "error": type(problem).__name__}
                log.warning("reservation not released", extra={"fields": fields})
            await asyncio.sleep(self._retry)

    def _go_on(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task


def _told(grant: Grant, problem: BaseException) -> dict[str, str]:
    return {"request_id": grant.ask.request_id, "error": type(problem).__name__}
