"""Real edits against the context: a prompt that does not fit is refused with both numbers, an output is cut to fit."""

import pytest

from inference.protocol import EngineError, GenerationRequest, SamplingParams
from inference.server.intake import Intake, Limits
from inference.speculation.spelling import spell
from inference.tokenizer import Tokenizer
from tests.inference.edits import CONTEXT, DATA, edits, text_tokenizer

SMALL = 4096


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer((DATA / "smollm2_tokenizer.json").read_text(encoding="utf-8"))


def intake(tokenizer: Tokenizer, max_model_len: int) -> Intake:
    return Intake(tokenizer, spell, Limits(max_model_len, text_tokenizer().vocab_size))


def test_a_row_that_exceeds_the_context_is_told_both_numbers(tokenizer: Tokenizer) -> None:
    lengths = {edit: len(text_tokenizer().encode(edit.prompt)) for edit in edits("pr_edits")}
    too_long = [edit for edit, length in lengths.items() if length >= SMALL]
    assert len(too_long) == 3
    for edit in too_long:
        with pytest.raises(EngineError) as refused:
            intake(tokenizer, SMALL).admit(GenerationRequest(request_id="r", prompt=edit.prompt))
        failure = refused.value.failure
        assert (failure.status, failure.code, failure.param) == (400, "context_length_exceeded", "prompt")
        assert f"{SMALL} tokens" in failure.message
        assert f"{lengths[edit]} tokens" in failure.message


def test_a_row_whose_answer_does_not_fit_is_cut_to_what_the_context_leaves(tokenizer: Tokenizer) -> None:
    encode = text_tokenizer().encode
    over = [e for e in edits("pr_edits") if len(encode(e.prompt)) + len(encode(e.after)) > CONTEXT]
    assert len(over) == 3
    for edit in over:
        request = GenerationRequest(
            request_id="r",
            prompt=edit.prompt,
            prediction=edit.before,
            sampling=SamplingParams(max_tokens=len(encode(edit.after))),
        )
        [seq] = intake(tokenizer, CONTEXT).admit(request).sequences
        assert seq.sampling.max_tokens == CONTEXT - len(encode(edit.prompt))
