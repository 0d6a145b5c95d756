"""What need not wait is done at once; what waits is bounded, cancelled and told as ever."""

import asyncio
from collections.abc import Awaitable

import pytest

from gateway.arrivals import Arrivals
from gateway.openai.frames import MARK, Frames
from gateway.openai.sse import frame
from gateway.openai.translate import Answer, ChatAnswer, CompletionAnswer, Heading
from gateway.promptly import promptly
from inference.protocol import TokenEvent, TokenUsage

pytestmark = pytest.mark.anyio


async def after(seconds: float, told: list[str]) -> str:
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        told.append("cancelled")
        raise
    told.append("done")
    return "result"


async def stubborn(told: list[str]) -> str:
    """Waits on after it was told to stop."""
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        return await after(0.01, told)
    raise AssertionError("it was not told")


async def at_once() -> str:
    return "at once"


async def test_what_need_not_wait_sets_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "timeout", None)
    assert await promptly(at_once(), 0) == "at once"


@pytest.mark.parametrize("work", [after, lambda seconds, told: asyncio.gather(after(seconds, told))])
async def test_what_waits_is_bounded(work: object) -> None:
    told: list[str] = []
    awaited: Awaitable[object] = work(0.01, told)  # type: ignore[operator]
    assert await promptly(awaited, 5) in ("result", ["result"])
    with pytest.raises(TimeoutError):
        await promptly(work(30, told), 0.01)  # type: ignore[operator]
    await asyncio.sleep(0)
    assert told == ["done", "cancelled"]


async def test_who_waits_may_be_cancelled() -> None:
    told: list[str] = []
    task = asyncio.create_task(promptly(after(30, told), 30))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == ["cancelled"]


async def test_work_that_goes_on_after_its_end_was_asked_for_is_awaited() -> None:
    told: list[str] = []
    assert await promptly(stubborn(told), 0.01) == "result"
    assert told == ["done"]


def come(arrivals: Arrivals[int]) -> None:
    arrivals.put(1)
    arrivals.wake()


async def test_arrivals_come_in_order_and_a_silence_is_told_each_time() -> None:
    arrivals: Arrivals[int] = Arrivals()
    assert not await arrivals.any(0.01)
    assert not await arrivals.any(0.01)
    for one in range(3):
        arrivals.put(one)
    assert await arrivals.any(0.01)
    assert (arrivals.first(), [arrivals.take() for _ in range(3)]) == (0, [0, 1, 2])
    assert not arrivals
    arrivals.close()


async def test_a_deadline_moves_with_each_wait() -> None:
    loop, arrivals = asyncio.get_running_loop(), Arrivals[int]()
    began = loop.time()
    for _ in range(5):
        loop.call_later(0.05, come, arrivals)
        assert await arrivals.any(0.15), "something came in time"
        arrivals.take()
    assert loop.time() - began >= 0.2
    assert not await arrivals.any(0.1)
    assert loop.time() - began >= 0.34
    loop.call_later(0.03, come, arrivals)
    assert await arrivals.any(None)
    arrivals.close()


async def test_a_nearer_deadline_is_not_missed() -> None:
    loop, arrivals = asyncio.get_running_loop(), Arrivals[int]()
    loop.call_soon(come, arrivals)
    assert await arrivals.any(60)
    arrivals.take()
    async with asyncio.timeout(5):
        assert not await arrivals.any(0.02)


@pytest.mark.parametrize("kind", [ChatAnswer, CompletionAnswer])
@pytest.mark.parametrize("text", ["a", 'q"\\\n', "\u2028\u0085é", MARK, "", "\U0001f600"])
def test_chunks_are_what_they_would_be_one_by_one(kind: type[ChatAnswer | CompletionAnswer], text: str) -> None:
    answer: Answer = kind(Heading("id", 1, f'"{MARK}"', f"fp {MARK}", includes_usage=True))
    frames = Frames(answer)
    usage = TokenUsage(prompt_tokens=1, cached_tokens=0, completion_tokens=2)
    told = frames.of(1, TokenEvent(choice=1, seq_no=0, token_ids=(1,), text=text))
    told += frames.of(1, TokenEvent(choice=1, seq_no=1, token_ids=(2,), text="", finish_reason="stop", usage=usage))
    spelt = [*answer.opening(1), *([answer.chunk(1, text)] if text else []), answer.chunk(1, "", "stop")]
    assert told == b"".join(map(frame, spelt))
