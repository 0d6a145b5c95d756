"""A gateway process with an engine by script, for tests that send signals: `python -m tests.gateway.serve_fake`."""

import asyncio
import json
import sys
from contextlib import nullcontext
from pathlib import Path

from gateway.serve import Started, serve
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import settings_for

WORDS = tuple(f" {i}" for i in range(400))


def announce(started: Started) -> None:
    keys = {"key": started.credentials.inference_key, "operator_key": started.credentials.operator_key}
    told = {"url": started.url, "admin_url": started.admin_url, "recovered": started.recovered}
    print(json.dumps(told | keys), flush=True)


if __name__ == "__main__":
    home, script, settings = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
    engine = FakeEngine(Script(words=WORDS, **script))
    asyncio.run(serve(settings_for(home, **settings), lambda *_: nullcontext(engine), announce))
