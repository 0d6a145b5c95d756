"""What `specgate serve` prints, and that its curl line is one a shell understands."""

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.bootstrap import Credentials
from gateway.cli.start_up import curl_line, key_lines, tell
from gateway.deployments.first import Remark
from gateway.serve import Started
from gateway.supervisor import EngineState

INFERENCE, OPERATOR = "sk-sg-aaaaaaaaaaaa-" + "i" * 43, "sk-sg-bbbbbbbbbbbb-" + "o" * 43


def credentials(*new: str) -> Credentials:
    return Credentials("home", "default", INFERENCE, OPERATOR, b"", frozenset(new))


@dataclass
class Engine:
    """Goes through its states, one a look."""

    states: list[EngineState] = field(default_factory=list)

    @property
    def state(self) -> EngineState:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


async def told(engine: Engine, *new: str) -> list[str]:
    said: list[str] = []
    started = Started("http://127.0.0.1:1", None, credentials(*new), "process", 2, engine)  # type: ignore[arg-type]
    await tell(started, engine, "tiny", Path("/h"), said.append)
    return said


@pytest.mark.anyio
async def test_it_ends_with_the_keys_the_address_the_durability_and_a_curl_line() -> None:
    loading = EngineState("loading", "The engine waits for torch.")
    said = await told(Engine([loading] * 9 + [EngineState("ready", "")]), "inference_key", "operator_key")
    assert said[0] == "Settled 2 requests that an earlier run left open."
    assert "readyz says what it waits for" in said[1]
    assert said[2] == "The engine waits for torch."
    assert said[3:6] == [
        "New keys, shown once and kept in /h/credentials.json:",
        f"  inference key  {INFERENCE}",
        f"  operator key   {OPERATOR}",
    ]
    assert "Ready: tiny at http://127.0.0.1:1/v1 (durability: process)" in said[6]
    assert "curl http://127.0.0.1:1/v1/chat/completions" in said[6]
    assert len(said) == 7


@pytest.mark.anyio
async def test_an_engine_that_is_given_up_says_why_and_the_keys_are_told_all_the_same() -> None:
    said = await told(Engine([EngineState("failed", "It died five times.")]), "operator_key")
    assert said[-2:] == [f"  operator key   {OPERATOR}", "NOT READY. It died five times."]


def test_keys_of_earlier_starts_are_not_told() -> None:
    assert key_lines(credentials(), Path("/h")) == []
    assert INFERENCE not in "".join(key_lines(credentials("operator_key"), Path("/h")))


def test_the_curl_line_reads_the_key_from_a_home_with_an_awkward_name(tmp_path: Path) -> None:
    home = tmp_path / "it's a home"
    home.mkdir()
    kept = {"home_id": "x", "tenant_id": "default", "inference_key": INFERENCE, "operator_key": OPERATOR}
    (home / "credentials.json").write_text(json.dumps(kept, indent=2))
    line = curl_line("http://127.0.0.1:1", "tiny", home)
    assert INFERENCE not in line
    script = f"curl() {{ printf '%s\\n' \"$@\"; }}\n{line}"
    arguments = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.splitlines()
    assert arguments[0] == "http://127.0.0.1:1/v1/chat/completions"
    assert f"authorization: Bearer {INFERENCE}" in arguments
    assert json.loads(arguments[-1])["model"] == "tiny"


@pytest.mark.anyio
async def test_settings_that_are_not_followed_are_told_first() -> None:
    engine = Engine([EngineState("ready", "")])
    said: list[str] = []
    remark = Remark("Not followed: SPECGATE_DEVICE=cuda. To change it:", {"device": "cuda"})
    url = "http://127.0.0.1:1"
    started = Started(url, url, credentials(), "process", 0, engine, (remark,))  # type: ignore[arg-type]
    await tell(started, engine, "tiny", Path("/h"), said.append)
    assert said[0] == remark.text
    assert said[1].startswith(f"curl -X PATCH {url}/admin/v1/deployments/dep_default ")
    assert '"operator_key": ' in said[1]
    assert said[1].endswith("""-d '{"device": "cuda", "reason": "As the settings say."}'""")


@pytest.mark.anyio
async def test_what_lies_behind_a_failure_is_told_on_the_terminal() -> None:
    failed = EngineState("failed", "It died five times.", cause="Its log /h/engine.log ends: no such device")
    assert (await told(Engine([failed])))[-1] == f"NOT READY. {failed.detail} {failed.cause}"


@pytest.mark.anyio
async def test_the_cause_of_the_first_of_several_failures_is_told_at_once() -> None:
    dead = [EngineState("restarting", f"It is started again ({i}).", cause=f"no such device {i}") for i in (1, 2)]
    said = await told(Engine([*dead, EngineState("ready", "")]))
    assert said[2:4] == ["It is started again (1). no such device 1", "It is started again (2)."]


@pytest.mark.anyio
async def test_a_start_that_is_stopped_says_nothing_of_engines() -> None:
    loading = EngineState("loading", "The engine waits for torch.")
    said = await told(Engine([loading] * 9 + [EngineState("stopped", "The engines were stopped.")]))
    assert said[2:] == ["The engine waits for torch."]
