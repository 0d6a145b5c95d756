"""The one place where an engine is put together: tokenizer, model, runner, engine, its thread.

torch is imported inside, on the thread that loads the model: the port must answer before, and that takes seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from inference.config import EngineConfig
from inference.protocol import PROTOCOL_VERSION, WorkerReady
from inference.server.intake import Intake, Limits
from inference.server.options import WorkerOptions
from inference.server.service import Progress, ServedEngine
from inference.tokenizer import Tokenizer

if TYPE_CHECKING:
    from inference.model.loaded_model import LoadedModel

GIB = 2**30


def build_engine(options: WorkerOptions, progress: Progress) -> ServedEngine:
    """Load everything and start the engine's thread."""
    progress("the tokenizer")
    tokenizer = Tokenizer.from_folder(options.model_folder)
    progress("torch")
    import torch

    from inference.engine.engine import Engine
    from inference.engine.worker import Worker
    from inference.model.loader import load_model
    from inference.model.runner import Runner
    from inference.speculation.spelling import spell

    progress(f"the model {options.model_name}")
    device = options.device if options.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    model = load_model(options.model_folder, device, options.dtype, options.max_model_len)
    require_revision(model.revision, options.revision)
    progress("the cache")
    config = engine_config(options, model)
    engine = Engine(Runner(model, config), config, model.eos_token_ids | tokenizer.eos_token_ids)
    worker = Worker(engine)
    worker.start()
    limits = Limits(config.max_model_len, model.vocab_size, config.allow_forced_output)
    return ServedEngine(Intake(tokenizer, spell, limits), worker, _ready(options, config, model))


def engine_config(options: WorkerOptions, model: LoadedModel) -> EngineConfig:
    """The cache's size, and the context that it can hold."""
    sizes = EngineConfig()
    num_blocks = options.num_blocks or sizes.num_blocks
    if options.cache_gib and not options.num_blocks:
        num_blocks = max(2, int(options.cache_gib * GIB) // (model.bytes_per_token * sizes.block_size))
    held = num_blocks * sizes.block_size
    if options.max_model_len and min(options.max_model_len, model.max_model_len) > held:
        raise ValueError(
            f"a cache of {num_blocks} blocks holds {held} tokens, and one request may have {options.max_model_len}: "
            "raise --cache-gib or --num-blocks, or lower --max-model-len"
        )
    return EngineConfig(
        num_blocks=num_blocks,
        max_model_len=min(model.max_model_len, held),
        max_sequences=options.max_sequences,
        allow_forced_output=options.allow_forced_output,
        speculation=options.speculation,
    )


def _ready(options: WorkerOptions, config: EngineConfig, model: LoadedModel) -> WorkerReady:
    number = str(model.dtype).removeprefix("torch.")
    return WorkerReady(
        model=options.model_name,
        max_model_len=config.max_model_len,
        vocab_size=model.vocab_size,
        fingerprint=f"fp_{model.revision[:12]}_{number}_{model.device.type}_p{PROTOCOL_VERSION}",
        family=model.family,
        revision=model.revision,
        weights_bytes=model.weights_bytes,
        cache_bytes=config.num_blocks * config.block_size * model.bytes_per_token,
    )


def require_revision(found: str, wanted: str | None) -> None:
    if wanted is not None and not found.startswith(wanted):
        raise ValueError(f"the folder holds revision {found}, and the deployment asks for {wanted}")
