"""What a worker is started with, as a value."""

from pathlib import Path

from pydantic import Field

from inference.config import SpeculationConfig
from inference.protocol import Value

DEVICE = r"^(auto|cpu|cuda(:[0-9]{1,2})?)$"


class WorkerOptions(Value):
    """Checked when made; the model's own facts fill in what is left open."""

    model_folder: Path
    model_name: str
    device: str = Field(default="auto", pattern=DEVICE)
    dtype: str | None = None
    """None: what is fastest on the device."""
    max_model_len: int | None = Field(default=None, ge=2)
    """None: the model's own."""
    cache_gib: float | None = Field(default=None, gt=0)
    num_blocks: int | None = Field(default=None, ge=2)
    """None: as many as `cache_gib` holds, else enough for a few long requests."""
    max_sequences: int = Field(default=32, ge=1)
    allow_forced_output: bool = False
    revision: str | None = None
    """None: any. Else how the revision that is found must begin."""
    speculation: SpeculationConfig = SpeculationConfig(version=0)
