"""Who runs in a pass: committed rows, then prompts, then drafts; and the youngest makes room."""

from inference.config import EngineConfig
from inference.engine.scheduler import Scheduler
from inference.sequence import Proposal, Sequence, Status
from tests.fakes import make_sequence

CONFIG = EngineConfig(block_size=4, num_blocks=16, max_model_len=64, max_batch_tokens=16, max_sequences=4)


def shape(scheduler: Scheduler) -> list[tuple[str, int, int, int]]:
    """(request, start, rows, sampled rows) of each chunk of the next pass."""
    batch = scheduler.schedule()
    return [(c.seq.request_id, c.start, len(c.tokens), c.num_sampled) for c in batch.chunks]


def run_pass(scheduler: Scheduler, token: int = 1) -> None:
    """One pass in which each sampled row chooses `token`: drafts are rejected unless they said so."""
    for chunk in scheduler.schedule().chunks:
        if chunk.num_sampled:
            chunk.seq.tokens.append(token)
            chunk.seq.draft = Proposal()
        scheduler.commit(chunk)
        scheduler.check()


def added(scheduler: Scheduler, *seqs: Sequence) -> None:
    for seq in seqs:
        scheduler.add(seq)


def test_a_long_prompt_is_computed_in_chunks_and_sampled_once() -> None:
    scheduler = Scheduler(CONFIG)
    added(scheduler, make_sequence(range(40), "long"))
    assert shape(scheduler) == [("long", 0, 16, 0)]
    run_pass(scheduler)
    run_pass(scheduler)
    assert shape(scheduler) == [("long", 32, 8, 1)]


def test_committed_rows_come_before_prompts_and_prompts_before_drafts() -> None:
    scheduler = Scheduler(CONFIG)
    decoding = make_sequence(range(5), "decoding")
    added(scheduler, decoding)
    run_pass(scheduler)
    decoding.draft = Proposal(tuple(range(12)), "test")
    added(scheduler, make_sequence(range(50, 62), "prompt"))
    assert shape(scheduler) == [("decoding", 5, 1 + 3, 1 + 3), ("prompt", 0, 12, 1)]


def test_a_draft_is_cut_to_the_rows_that_are_left() -> None:
    scheduler = Scheduler(CONFIG)
    decoding = make_sequence(range(5), "decoding")
    added(scheduler, decoding)
    run_pass(scheduler)
    decoding.draft = Proposal(tuple(range(60)), "test")
    [chunk] = scheduler.schedule().chunks
    assert len(chunk.draft) == 15
    assert chunk.tokens == (1, *range(15))


def test_the_last_chunk_of_a_prompt_carries_a_draft() -> None:
    scheduler = Scheduler(CONFIG)
    added(scheduler, make_sequence(range(18), "p", draft=Proposal((5, 6, 7), "test")))
    assert shape(scheduler) == [("p", 0, 16, 0)]
    run_pass(scheduler)
    assert shape(scheduler) == [("p", 16, 2 + 3, 1 + 3)]


def test_a_draft_takes_empty_blocks_only() -> None:
    scheduler = Scheduler(EngineConfig(block_size=4, num_blocks=6, max_model_len=24, max_batch_tokens=64))
    old, other = make_sequence(range(8), "old"), make_sequence(range(50, 57), "other")
    added(scheduler, old, other)
    run_pass(scheduler)
    assert scheduler.cache.num_empty == 2
    old.draft = Proposal(tuple(range(30)), "test")
    chunks = {c.seq.request_id: c for c in scheduler.schedule().chunks}
    assert len(chunks["old"].draft) == 7, "three rows of its own block and the one empty block"
    assert chunks["other"].num_sampled == 1


def test_the_youngest_makes_room_and_comes_back_first() -> None:
    scheduler = Scheduler(EngineConfig(block_size=4, num_blocks=4, max_model_len=16, max_batch_tokens=64))
    old, young, late = make_sequence(range(7), "old"), make_sequence(range(50, 57), "young"), make_sequence([1], "late")
    added(scheduler, old, young)
    run_pass(scheduler)
    added(scheduler, late)
    run_pass(scheduler)
    run_pass(scheduler)
    assert [s.request_id for s in scheduler.running] == ["old"]
    assert [s.request_id for s in scheduler.waiting] == ["young", "late"]
    assert young.status is Status.WAITING
    assert young.num_tokens == 9, "what was committed stays"


def test_priority_orders_the_queue_and_equal_ones_keep_their_turn() -> None:
    scheduler = Scheduler(CONFIG)
    added(
        scheduler,
        make_sequence([1], "a"),
        make_sequence([1], "b", priority=5),
        make_sequence([1], "c", priority=-1),
        make_sequence([1], "d"),
    )
    assert [s.request_id for s in scheduler.waiting] == ["c", "a", "d", "b"]


def test_no_more_run_than_there_are_places() -> None:
    scheduler = Scheduler(CONFIG)
    added(scheduler, *(make_sequence([i], f"r{i}") for i in range(6)))
    assert [row[0] for row in shape(scheduler)] == ["r0", "r1", "r2", "r3"]


def test_further_choices_wait_for_the_prompt_and_then_share_it() -> None:
    scheduler = Scheduler(CONFIG)
    leader = make_sequence(range(20), "n")
    added(scheduler, leader, make_sequence(range(20), "n", choice=1, leader=leader), make_sequence([1], "else"))
    assert shape(scheduler) == [("n", 0, 16, 0)]
    run_pass(scheduler)
    run_pass(scheduler)
    assert leader.num_output == 1
    assert ("n", 16, 4, 1) in shape(scheduler)


def test_a_choice_whose_leader_is_gone_computes_the_prompt_itself() -> None:
    scheduler = Scheduler(CONFIG)
    leader = make_sequence(range(10), "n")
    added(scheduler, leader, make_sequence(range(10), "n", choice=1, leader=leader))
    scheduler.remove(leader)
    assert shape(scheduler) == [("n", 0, 10, 1)]


def test_a_rejected_draft_gives_back_its_blocks() -> None:
    scheduler = Scheduler(CONFIG)
    seq = make_sequence(range(5), "r")
    added(scheduler, seq)
    run_pass(scheduler)
    seq.draft = Proposal((9,) * 12, "test")
    assert shape(scheduler) == [("r", 5, 13, 13)]
    assert len(seq.blocks) == 5
    seq.draft = Proposal((9,) * 12, "test")
    run_pass(scheduler)
    assert len(seq.blocks) == 2
    assert scheduler.cache.num_empty == 14
