"""How much memory a deployment needs: as its engine measured it, else from the files of its folder. Pure but for these.

a replica = weights + cache of keys and values + drafter (lookup: none)
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from inference.protocol import WorkerReady
from storage.values.deployments import DeploymentSpec

GIB = 2**30
CACHE_TOKENS = 2048 * 16
"""Held by a cache whose size nobody chose: the engine's default."""
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one replica. `basis` unknown: nothing of the model is here yet."""

    basis: Literal["measured", "estimated", "unknown"]
    weights_bytes: int | None = None
    cache_bytes: int | None = None
    drafter_bytes: int = 0

    @property
    def replica_bytes(self) -> int | None:
        parts = (self.weights_bytes, self.cache_bytes)
        return None if None in parts else sum(part or 0 for part in parts) + self.drafter_bytes

    def told(self, replicas: int, additional: int) -> dict[str, Any]:
        """`additional`: replicas that are loaded before others are let go."""
        one = self.replica_bytes
        return asdict(self) | {
            "replica_bytes": one,
            "total_bytes": None if one is None else one * replicas,
            "additional_bytes": one * additional if one is not None else None if additional else 0,
        }


UNKNOWN = Memory("unknown")


def measured(facts: WorkerReady) -> Memory:
    return Memory("measured", facts.weights_bytes, facts.cache_bytes)


def estimated(spec: DeploymentSpec, home: Path) -> Memory:
    """From the sizes of the weight files and what the configuration says of the layers."""
    folder = home / "models" / spec.model  # a path that begins at the root stands for itself
    try:
        config = json.loads((folder / "config.json").read_text())
        saved = str(config.get("dtype") or config.get("torch_dtype") or "float32")
        number = BYTES[spec.dtype] if spec.dtype else 4 if spec.device == "cpu" else BYTES.get(saved, 4)
        stored = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        weights = stored * number // BYTES.get(saved, 4)
        cache = round(spec.cache_gib * GIB) if spec.cache_gib else CACHE_TOKENS * _bytes_per_token(config, number)
    except (OSError, ValueError, KeyError, TypeError):
        return UNKNOWN
    return Memory("estimated", weights, cache)


def _bytes_per_token(config: dict[str, Any], number: int) -> int:
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    return int(2 * config["num_hidden_layers"] * kv_heads * head_dim * number)
