"""The paged runner says what transformers says, however the rows are cut, packed and laid out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from inference.model.loader import LoadedModel, load_model
from tests.inference.conftest import FAMILIES, MakeTiny
from tests.inference.driving import advance, advance_all, consecutive, greedy, runner_of, scattered, sequence_of

PROMPT = [(37 * i * i + 11 * i + 5) % 97 for i in range(30)]
OTHER = [(53 * i * i + 7 * i + 2) % 97 for i in range(21)]


def transformers_greedy(folder: Path, prompt: list[int], num_tokens: int) -> list[int]:
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    model.generation_config.eos_token_id = None
    ids = torch.tensor([prompt])
    with torch.inference_mode():
        whole = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=num_tokens, pad_token_id=0
        )
    return whole[0, len(prompt) :].tolist()


@pytest.fixture(scope="module")
def llama(tiny_llama: Callable[..., Path]) -> LoadedModel:
    return load_model(tiny_llama())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("layout", "chunk"), [(consecutive, 1000), (scattered, 7)])
def test_greedy_tokens_are_those_of_generate(
    tiny_model: MakeTiny, family: str, layout: Callable[[int], list[int]], chunk: int
) -> None:
    """30 prompt tokens and 24 more: every window (12) is passed twice over."""
    folder = tiny_model(family)
    theirs = transformers_greedy(folder, PROMPT, 24)
    assert len(set(theirs)) >= 8, "a model that repeats itself would prove little"
    assert greedy(runner_of(load_model(folder)), sequence_of(PROMPT, layout(14)), 24, chunk) == theirs


@pytest.mark.model
def test_greedy_tokens_of_smollm2_are_those_of_generate(smollm2_folder: Path) -> None:
    prompt = [1, 4093, 198, 2683, 253, 7425, 338, 9129, 827, 8007, 2, 198, 1, 520, 9531, 198]
    theirs = transformers_greedy(smollm2_folder, prompt, 40)
    assert len(set(theirs)) >= 15
    model = load_model(smollm2_folder)
    assert greedy(runner_of(model), sequence_of(prompt, scattered(20)), 40, 5) == theirs


def test_a_sequence_packed_with_others_is_what_it_is_alone(llama: LoadedModel) -> None:
    alone = advance(runner_of(llama), sequence_of(PROMPT, consecutive(8)), 30, 30)
    other_alone = advance(runner_of(llama), sequence_of(OTHER, consecutive(6)), 21, 21)
    runner = runner_of(llama)
    one, two = sequence_of(PROMPT, consecutive(8)), sequence_of(OTHER, scattered(6, first=8))
    early = advance_all(runner, [(one, 13, 13), (two, 4, 4)])
    late = advance_all(runner, [(two, 17, 17), (one, 17, 17)])
    packed, other_packed = torch.cat([early[:13], late[17:]]), torch.cat([early[13:], late[:17]])
    torch.testing.assert_close(packed, alone, rtol=0, atol=1e-4)
    torch.testing.assert_close(other_packed, other_alone, rtol=0, atol=1e-4)


def test_a_prompt_of_many_tiles_in_chunks_is_the_prompt_whole(llama: LoadedModel) -> None:
    prompt = (PROMPT * 6)[:170]
    whole = advance(runner_of(llama), sequence_of(prompt, consecutive(43)), 170, 170)
    seq, runner = sequence_of(prompt, scattered(43)), runner_of(llama)
    cut = torch.cat([advance(runner, seq, num, num) for num in (100, 1, 69)])
    torch.testing.assert_close(cut, whole, rtol=0, atol=1e-4)


def test_rows_of_a_draft_score_as_one_row_at_a_time(llama: LoadedModel) -> None:
    """A rejected draft leaves stale rows behind; the next pass writes over them before it reads."""
    single, draft = runner_of(llama), runner_of(llama)
    one, many = sequence_of(PROMPT, consecutive(8)), sequence_of(PROMPT, consecutive(8))
    advance(single, one, 20)
    advance(draft, many, 20)
    right, many.tokens = many.tokens, [*many.tokens[:22], *[96] * 8]
    advance(draft, many, 9, 9)  # two good rows and seven wrong ones
    many.tokens, many.num_computed = right, 22
    step_by_step = torch.cat([advance(single, one, 1, 1) for _ in range(10)])
    verified = advance(draft, many, 8, 8)
    torch.testing.assert_close(verified, step_by_step[2:], rtol=0, atol=1e-3)


@pytest.mark.model
def test_rows_of_a_draft_score_as_one_row_at_a_time_on_smollm2(smollm2_folder: Path) -> None:
    model = load_model(smollm2_folder)
    prompt = [(7919 * i + 13) % 49152 for i in range(40)]
    single, many = runner_of(model), runner_of(model)
    one, draft = sequence_of(prompt, consecutive(10)), sequence_of(prompt, scattered(10))
    advance(single, one, 31)
    advance(many, draft, 31)
    step_by_step = torch.cat([advance(single, one, 1, 1) for _ in range(9)])
    torch.testing.assert_close(advance(many, draft, 9, 9), step_by_step, rtol=0, atol=1e-3)


def test_only_sampled_rows_have_logits(llama: LoadedModel) -> None:
    runner, seq, other = runner_of(llama), sequence_of(PROMPT, consecutive(8)), sequence_of(OTHER, consecutive(6, 8))
    assert advance(runner, seq, 10).shape == (0, 97)
    logits = advance_all(runner, [(seq, 10, 2), (other, 5, 0), (other, 3, 1)])
    assert logits.shape == (3, 97)
    assert logits.dtype == torch.float32


def test_the_runner_says_its_sizes(llama: LoadedModel) -> None:
    runner = runner_of(llama, num_blocks=10)
    assert (runner.vocab_size, runner.max_model_len) == (97, 256)
    # 2 layers x 2 heads x (8 + 8) numbers x 4 bytes, for 40 slots
    assert runner.cache_bytes == llama.bytes_per_token * 40 == 2 * 2 * 16 * 4 * 40


def test_ids_outside_the_vocabulary_never_reach_the_device(llama: LoadedModel) -> None:
    with pytest.raises(AssertionError, match="vocabulary"):
        advance(runner_of(llama), sequence_of([5, 97], consecutive(1)), 2)


def test_a_span_that_runs_past_its_blocks_is_caught(llama: LoadedModel) -> None:
    with pytest.raises(AssertionError, match="past its blocks"):
        advance(runner_of(llama), sequence_of(PROMPT[:5], consecutive(1)), 5)
