"""What is checked before the engine hears of a request, and what the engine then gets."""

import pytest

from inference.protocol import ChatMessage, EngineError, GenerationRequest, SamplingParams, SpeculationRequest
from inference.server.intake import Admission, Intake, Limits, parse
from inference.speculation.spelling import spell
from tests.inference.serving import MAX_MODEL_LEN, VOCAB, ask, tokenizer


def admit(request: GenerationRequest, *, allow_forced_output: bool = False) -> Admission:
    return Intake(tokenizer(), spell, Limits(MAX_MODEL_LEN, VOCAB, allow_forced_output)).admit(request)


def refusal(request: GenerationRequest) -> tuple[int, str, str | None]:
    with pytest.raises(EngineError) as error:
        admit(request)
    failure = error.value.failure
    return failure.status, failure.code, failure.param


def test_a_prompt_becomes_one_sequence_with_everything_filled_in() -> None:
    sampling = SamplingParams(max_tokens=9, temperature=0.5, top_p=0.9, seed=3, stop=("!",))
    speculation = SpeculationRequest(mode="off", resync="strict")
    asked = ask(sampling=sampling, cache_salt="s", priority=2, prediction="hello", speculation=speculation)
    admission = admit(asked)
    [seq] = admission.sequences
    assert (admission.accepted.prompt_tokens, admission.accepted.prediction_tokens) == (1, 1)
    assert (seq.request_id, seq.choice, seq.leader, seq.cache_salt, seq.priority) == ("r", 0, None, "s", 2)
    assert (seq.tokens, seq.prompt_len, seq.sampling) == (tokenizer().encode("hello"), 1, sampling)
    assert (seq.speculate, seq.strict_resync, seq.forced) == (False, True, None)
    assert seq.prediction == spell("hello", tokenizer())
    assert seq.text.push(tokenizer().encode("!")[0])


def test_choices_share_one_seed_and_follow_the_first() -> None:
    seqs = admit(ask(sampling=SamplingParams(n=3))).sequences
    assert [seq.choice for seq in seqs] == [0, 1, 2]
    assert [seq.leader for seq in seqs] == [None, seqs[0], seqs[0]]
    assert len({seq.sampling.seed for seq in seqs}) == 1
    assert seqs[0].tokens is not seqs[1].tokens
    assert seqs[0].text is not seqs[1].text


def test_a_seed_is_drawn_where_none_was_given() -> None:
    seeds = {admit(ask()).sequences[0].sampling.seed for _ in range(3)}
    assert len(seeds) == 3
    assert all(0 <= seed < 2**63 for seed in seeds if seed is not None)
    assert admit(ask(sampling=SamplingParams(seed=-5))).sequences[0].sampling.seed == -5


def test_max_tokens_never_exceeds_what_the_context_leaves() -> None:
    for wanted, given in [(None, MAX_MODEL_LEN - 3), (10**6, MAX_MODEL_LEN - 3), (5, 5)]:
        [seq] = admit(ask(prompt="abc", sampling=SamplingParams(max_tokens=wanted))).sequences
        assert seq.sampling.max_tokens == given


def test_messages_go_through_the_chat_template() -> None:
    turns = (ChatMessage(role="user", content="hello"),)
    assert admit(ask(messages=turns)).sequences[0].tokens == tokenizer().chat(turns)


@pytest.mark.parametrize("length", [MAX_MODEL_LEN, MAX_MODEL_LEN + 9])
def test_a_prompt_as_long_as_the_context_is_refused_with_both_numbers(length: int) -> None:
    assert refusal(ask(prompt="a" * length)) == (400, "context_length_exceeded", "prompt")
    with pytest.raises(EngineError, match=rf"is {MAX_MODEL_LEN} tokens.* resulted in {length} tokens"):
        admit(ask(prompt="a" * length))
    turns = [{"role": "user", "content": "a" * length}]
    assert refusal(ask(messages=turns)) == (400, "context_length_exceeded", "messages")


def test_one_token_less_leaves_room_for_one() -> None:
    [seq] = admit(ask(prompt="a" * (MAX_MODEL_LEN - 1))).sequences
    assert seq.sampling.max_tokens == 1


def test_a_prediction_may_be_four_times_as_long_as_the_context() -> None:
    assert admit(ask(prediction="a" * 4 * MAX_MODEL_LEN)).accepted.prediction_tokens == 4 * MAX_MODEL_LEN
    assert admit(ask(prediction="hello" * 4 * MAX_MODEL_LEN)).accepted.prediction_tokens == 4 * MAX_MODEL_LEN
    too_long = ask(prediction="a" * (4 * MAX_MODEL_LEN + 1))
    assert refusal(too_long) == (400, "prediction_too_long", "prediction")


def test_a_prediction_is_text_and_an_empty_one_is_none() -> None:
    [seq] = admit(ask(prediction="<|im_end|>")).sequences
    assert seq.prediction is not None
    assert seq.prediction.spellings[0].ids == tuple(tokenizer().encode("<|im_end|>"))
    assert admit(ask(prediction="")).sequences[0].prediction is None


def test_forced_output_is_refused_unless_enabled() -> None:
    asked = ask(forced_output="hello")
    assert refusal(asked) == (400, "forced_output_refused", "forced_output")
    [seq] = admit(asked, allow_forced_output=True).sequences
    assert seq.forced == tuple(tokenizer().encode("hello"))


def test_token_ids_are_taken_as_they_are_if_the_model_has_them() -> None:
    assert admit(ask(prompt_token_ids=[2, 0, VOCAB - 1])).sequences[0].tokens == [2, 0, VOCAB - 1]
    for bad in (-1, VOCAB):
        assert refusal(ask(prompt_token_ids=[2, bad])) == (400, "invalid_token_id", "prompt")


def test_exactly_one_kind_of_prompt_is_needed_and_it_holds_something() -> None:
    assert refusal(GenerationRequest(request_id="r")) == (400, "invalid_request", "messages")
    assert refusal(GenerationRequest(request_id="r", prompt="a", prompt_token_ids=(1,)))[0] == 400
    assert refusal(ask(prompt="")) == (400, "empty_prompt", "prompt")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        (b'{"request_id": "r", "sampling": {"n": 0}}', "sampling.n"),
        (b'{"request_id": "r", "secret member": 1}', "secret member"),
        (b'{"request_id": "r", "prompt": "\\ud800"}', None),
        (b'{"request_id": "r", "prompt": "\xff"}', None),
    ],
)
def test_a_malformed_request_is_named_by_its_member(body: bytes, param: str | None) -> None:
    with pytest.raises(EngineError) as error:
        parse(body)
    failure = error.value.failure
    assert (failure.status, failure.code, failure.param) == (400, "invalid_request", param)


def test_a_refusal_never_repeats_what_was_said() -> None:
    with pytest.raises(EngineError) as error:
        parse(b'{"request_id": "r", "prompt": ["my secret"]}')
    assert "my secret" not in error.value.failure.message
    assert error.value.__cause__ is None


class CountingTokenizer:
    """The tokenizer, counting the characters it is given."""

    def __init__(self) -> None:
        self.characters = 0

    def __getattr__(self, name: str) -> object:
        return getattr(tokenizer(), name)

    def encode(self, text: str) -> list[int]:
        self.characters += len(text)
        return tokenizer().encode(text)


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"prompt": "a", "prediction": "ab" * 2_000_000}, "prediction_too_long"),
        ({"prompt": "ab" * 2_000_000}, "context_length_exceeded"),
        ({"messages": [ChatMessage(role="user", content="ab" * 10_000)] * 200}, "context_length_exceeded"),
    ],
)
def test_a_text_far_too_long_is_refused_before_all_of_it_is_read(members: dict[str, object], code: str) -> None:
    counting = CountingTokenizer()
    with pytest.raises(EngineError) as error:
        Intake(counting, spell, Limits(MAX_MODEL_LEN, VOCAB)).admit(ask(**members))  # type: ignore[arg-type]
    assert error.value.failure.code == code
    assert "more than " in error.value.failure.message
    assert counting.characters <= 1 << 16
