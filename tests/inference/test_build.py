"""What a worker refuses to build, and what it says of what it built."""

import pytest
import torch

from inference.model.errors import ModelRefused
from inference.server.build import require_revision
from inference.server.service import Progress, ServedEngine, Service
from tests.inference.serving import ScriptedWorker, served, until

pytestmark = pytest.mark.anyio


def test_another_revision_than_the_one_asked_for_is_refused() -> None:
    for wanted in (None, "ab", "ab12"):
        require_revision("ab12", wanted)
    with pytest.raises(ValueError, match="holds revision ab12, and the deployment asks for ab13"):
        require_revision("ab12", "ab13")


@pytest.mark.parametrize(
    ("error", "refused"),
    [(ModelRefused("no"), True), (ValueError("too small"), True), (torch.OutOfMemoryError("later"), False)],
    ids=["the model", "the settings", "the machine"],
)
async def test_only_what_would_fail_again_is_refused_for_good(error: Exception, refused: bool) -> None:
    def build(progress: Progress) -> ServedEngine:
        raise error

    service = Service()
    service.start_loading(build)
    await until(lambda: service.failure is not None)
    assert service.is_refused is refused


async def test_an_engine_that_is_there_is_no_refusal() -> None:
    service = Service()
    service.start_loading(lambda progress: served(ScriptedWorker()))
    await until(lambda: service.engine is not None)
    assert not service.is_refused
