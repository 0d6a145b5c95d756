"""A streamed answer's events onto the wire.

From where they arrive, as long as nothing has to be waited for: a turn of the answer's own task, through every layer
that it runs in, costs as much as all else of a chunk. What comes in quick succession is left to that task, which takes
it together.
"""

import asyncio

from gateway.completion import Burst, Completion
from gateway.openai.frames import Frames
from gateway.openai.translate import Answer
from gateway.wire import Wire


class Telling:
    def __init__(self, answer: Answer, completion: Completion, wire: Wire) -> None:
        self._frames, self._completion, self._wire = Frames(answer), completion, wire
        self._unsent = 0
        """Tokens whose text is held back, or under way."""
        self._last = 0.0
        self._time = asyncio.get_running_loop().time

    def at_once(self, burst: Burst) -> bool:
        """False where the client does not keep up: whoever writes next waits for it."""
        self._last = self._time()
        told = self._spell(burst)
        is_out = not told or self._wire.write_now(told)
        if told and is_out:
            self._wrote()
        return is_out

    @property
    def is_due(self) -> bool:
        """Whether what came is told at once."""
        return self._time() > self._last and not self._wire.waits

    async def tell(self, burst: Burst) -> None:
        if told := self._spell(burst):
            await self._wire.write(told)
            self._wrote()

    def _spell(self, burst: Burst) -> bytes:
        self._unsent += sum([len(event.token_ids) for _, event in burst])
        return b"".join([self._frames.of(*arrival) for arrival in burst])

    def _wrote(self) -> None:
        self._completion.wrote(self._unsent)
        self._unsent = 0
