"""What a request may come to: never less than what it can use, before and after the engine has counted."""

import pytest

from gateway.limits.ask import MESSAGE_TOKENS, TEMPLATE_TOKENS, Ask, Size
from inference.protocol import ChatMessage, GenerationRequest, SamplingParams


def run(max_tokens: int | None = 10, n: int = 1, **members: object) -> GenerationRequest:
    sampling = SamplingParams(max_tokens=max_tokens, n=n)
    return GenerationRequest(request_id="r", sampling=sampling, **({"prompt": "x"} | members))  # type: ignore[arg-type]


def ask(*runs: GenerationRequest, context: int | None = 100, bills_rejected: bool = False) -> Ask:
    return Ask("r", "tiny", runs, context, bills_rejected)


def test_input_is_guessed_by_its_bytes_in_utf_8() -> None:
    messages = (ChatMessage(role="user", content="größe"), ChatMessage(role="assistant", content="日本"))
    chat = run(messages=messages, prompt=None)
    assert ask(chat).guess().input_tokens == TEMPLATE_TOKENS + 2 * MESSAGE_TOKENS + 7 + 6
    assert ask(run(prompt="日本")).guess().input_tokens == TEMPLATE_TOKENS + 6
    assert ask(run(prompt=None, prompt_token_ids=(1, 2, 3))).guess().input_tokens == 3
    several = ask(run(prompt=None, prompt_token_ids=(1, 2)), run(prompt=None, prompt_token_ids=(3,)))
    assert several.guess().input_tokens == 3
    assert several.known([(2, 0), (1, 0)]).input_tokens == 3


@pytest.mark.parametrize(
    ("limit", "context", "n", "guess", "known"),
    [(10, 100, 3, 30, 30), (None, 100, 2, 200, 120), (80, 100, 1, 80, 60), (10, None, 1, 10, 10)],
)
def test_output_is_each_choice_s_limit(limit: int | None, context: int | None, n: int, guess: int, known: int) -> None:
    """…or what the context leaves it."""
    one = ask(run(limit, n), context=context)
    assert one.guess().output_tokens == guess
    assert one.known([(40, 0)]).output_tokens == known
    assert one.is_bounded


@pytest.mark.parametrize(("bills_rejected", "guess", "known"), [(True, 2 * (10 + 12), 2 * (10 + 5)), (False, 20, 20)])
def test_a_prediction_counts_where_what_is_rejected_is_billed(bills_rejected: bool, guess: int, known: int) -> None:
    one = ask(run(n=2, prediction="12 letters.."), bills_rejected=bills_rejected)
    assert one.guess().output_tokens == guess
    assert one.known([(3, 5)]) == Size(3, known)


def test_without_limit_and_context_there_is_no_bound() -> None:
    assert not ask(run(None), context=None).is_bounded
    assert ask(run(None), context=1).is_bounded
