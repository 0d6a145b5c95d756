"""An answer's events as the bytes of its stream. What all chunks of a choice have alike is spelt once."""

from gateway.openai.sse import frame, json_bytes
from gateway.openai.translate import Answer
from inference.protocol import TokenEvent

MARK = "the text of a chunk"
"""Stands where the text goes. What a client chose (the model's name) comes before it."""


class Frames:
    """Of one answer, from the first event of each choice on."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._around: dict[int, tuple[bytes, bytes]] = {}
        """Choice → what precedes and follows the text of its chunks."""

    def of(self, index: int, event: TokenEvent) -> bytes:
        """Text that is held back (half a character, a possible stop string) makes no chunk yet."""
        told = b"" if index in self._around else self._begin(index)
        if event.text:
            before, after = self._around[index]
            told += before + json_bytes(event.text) + after
        if event.finish_reason:
            told += frame(self._answer.chunk(index, "", event.finish_reason))
        return told

    def _begin(self, index: int) -> bytes:
        before, _, after = frame(self._answer.chunk(index, MARK)).rpartition(json_bytes(MARK))
        self._around[index] = before, after
        return b"".join(map(frame, self._answer.opening(index)))
