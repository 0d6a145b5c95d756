"""What is said of a deployment: memory before and after it is loaded, drafters that it can and cannot have."""

import json
from pathlib import Path

import pytest

from gateway.deployments.capabilities import OWN_DRAFTER, capabilities, default_drafter, drafters, told_of
from gateway.deployments.changes import Plan
from gateway.deployments.document import DeploymentDocument
from gateway.deployments.memory import CACHE_TOKENS, UNKNOWN, Memory, estimated, measured
from gateway.deployments.speculation import (
    KINDS,
    LATER_KINDS,
    Adaptive,
    Drafter,
    Prediction,
    Speculation,
    engine_config,
)
from gateway.openai.parse import parse
from inference.config import EngineConfig, SpeculationConfig
from inference.protocol import WorkerReady
from storage.values.deployments import DeploymentSpec

READY = WorkerReady(
    model="tiny",
    max_model_len=256,
    vocab_size=9,
    fingerprint="fp",
    family="llama",
    weights_bytes=1000,
    cache_bytes=500,
)


def model(home: Path, **config: object) -> DeploymentSpec:
    folder = home / "tiny"
    folder.mkdir(exist_ok=True)
    facts = {"num_attention_heads": 4, "hidden_size": 32, "num_hidden_layers": 2, "dtype": "float32"} | config
    (folder / "config.json").write_text(json.dumps(facts))
    (folder / "model.safetensors").write_bytes(b"x" * 4000)
    return DeploymentSpec(name="tiny", model=str(folder), device="cpu", cache_gib=0.25)


def test_memory_is_estimated_from_the_files(tmp_path: Path) -> None:
    spec = model(tmp_path)
    assert estimated(spec, tmp_path) == Memory("estimated", 4000, 2**28)
    assert estimated(DeploymentSpec("a", spec.model, dtype="bfloat16", cache_gib=0.25), tmp_path).weights_bytes == 2000
    by_default = DeploymentSpec("a", spec.model, device="cpu")
    assert estimated(by_default, tmp_path).cache_bytes == CACHE_TOKENS * 2 * 2 * 4 * 8 * 4
    assert estimated(model(tmp_path, num_key_value_heads=1, head_dim=16), tmp_path).cache_bytes == 2**28
    fewer = DeploymentSpec("a", spec.model, device="cpu")
    assert estimated(fewer, tmp_path).cache_bytes == CACHE_TOKENS * 2 * 2 * 1 * 16 * 4
    assert estimated(DeploymentSpec("a", "smollm2-135m"), tmp_path) == UNKNOWN
    assert estimated(model(tmp_path, num_attention_heads=None), tmp_path).basis == "estimated", "the size was chosen"


def test_the_default_cache_is_the_engines_own() -> None:
    sizes = EngineConfig()
    assert sizes.num_blocks * sizes.block_size == CACHE_TOKENS


def test_memory_is_that_of_all_replicas_and_of_those_that_load_beside_others() -> None:
    memory = measured(READY)
    assert memory.told(replicas=3, additional=2) == {
        "basis": "measured",
        "weights_bytes": 1000,
        "cache_bytes": 500,
        "drafter_bytes": 0,
        "replica_bytes": 1500,
        "total_bytes": 4500,
        "additional_bytes": 3000,
    }
    assert (UNKNOWN.told(2, 1)["total_bytes"], UNKNOWN.told(2, 1)["additional_bytes"]) == (None, None)
    assert UNKNOWN.told(2, 0)["additional_bytes"] == 0, "nothing more is loaded"


@pytest.mark.parametrize(
    ("change", "needs_load", "additional"),
    [
        ({"speculation": Speculation(enabled=False)}, False, 0),
        ({"replicas": 3}, False, 1),
        ({"replicas": 1}, False, 0),
        ({"device": "cpu"}, True, 2),
        ({"device": "cpu", "replicas": 3}, True, 3),
        ({"enabled": False}, False, 0),
    ],
    ids=str,
)
def test_what_a_change_loads(change: dict[str, object], needs_load: bool, additional: int) -> None:
    old = DeploymentDocument(name="a", model="m", replicas=2)
    plan = Plan(old.model_dump(mode="json"), old.model_copy(update=change), measured(READY))
    assert plan.needs_load is needs_load
    assert plan.told()["memory"]["additional_bytes"] == 1500 * additional


def test_a_family_without_a_drafter_of_its_own_says_so() -> None:
    assert (
        default_drafter("llama")["why"] == "No trained drafter belongs to the family 'llama': it runs with lookup only."
    )
    assert "known once it is loaded" in default_drafter(None)["why"]
    for family, own in OWN_DRAFTER.items():
        assert f"its own drafter, {own}, which is not built into this version" in default_drafter(family)["why"]
        assert own in LATER_KINDS


def test_every_kind_of_drafter_is_told_with_why_not() -> None:
    told = {one["kind"]: (one["available"], one["why"]) for one in drafters(("lookup", "suffix"))}
    assert list(told) == [*KINDS, *LATER_KINDS]
    assert told["lookup"] == told["suffix"] == told["none"] == (True, None)
    assert told["mtp"] == (False, "is not built into this version")
    assert drafters(())[1] == {"kind": "lookup", "available": False, "why": "its engine cannot run it"}
    assert capabilities(READY)["context_length"] == 256
    assert capabilities(None)["context_length"] is None


def test_what_drafts_is_told_in_a_sentence() -> None:
    assert told_of(Speculation()) == "Drafts come from the client's prediction and lookup in the request's own text."
    only = Speculation(drafter=Drafter(kind="none"))
    assert told_of(only) == "Drafts come from the client's prediction."
    assert told_of(only.model_copy(update={"prediction": Prediction(enabled=False)})) == (
        "Nothing drafts: every source is off."
    )
    suffix = Speculation(drafter=Drafter(kind="suffix", scope="tenant"), prediction=Prediction(enabled=False))
    assert told_of(suffix) == "Drafts come from suffixes of the request's own text and its tenant's latest answers."
    assert told_of(Speculation(enabled=False)) == "Nothing drafts: speculation is off."


def test_the_default_is_the_engines_own_and_every_member_reaches_it() -> None:
    assert engine_config(Speculation(), 1) == SpeculationConfig()
    written = {
        "enabled": False,
        "drafter": {
            "kind": "suffix",
            "length": 3,
            "ngram": {"min": 4, "max": 9},
            "scope": "tenant",
            "suffix": {"min_match": 3, "factor": 1.5},
        },
        "prediction": {"enabled": False, "max_tokens": 77},
        "adaptive": {"mode": "schedule", "start": 2, "minimum": 1, "maximum": 16},
        "auto_disable": {"min_acceptance": 0.25, "max_running": 4},
    }
    config = engine_config(parse(json.dumps(written).encode(), Speculation), 5, "dep_x")
    assert config.model_dump() == {
        "origin": "dep_x",
        "version": 5,
        "enabled": False,
        "verification": "coupled",
        "lookup": {"enabled": False, "min_ngram": 4, "max_ngram": 9, "length": 3},
        "suffix": {"enabled": True, "min_match": 3, "factor": 1.5, "length": 3, "scope": "tenant"},
        "prediction": written["prediction"],
        "adaptive": written["adaptive"],
        "auto_disable": written["auto_disable"],
    }
    assert Adaptive().maximum == SpeculationConfig().adaptive.maximum
