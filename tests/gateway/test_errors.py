"""The error table, row by row: status, type, code, param. No refused request opens the ledger or wakes the engine."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import BETWEEN_US
from inference.protocol import EngineError
from tests.gateway.error_codes import all_codes, statuses
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import CHAT, MODEL, chat_body, running

pytestmark = pytest.mark.anyio
COMPLETIONS = "/v1/completions"
PART = {"type": "text", "text": "x"}


@dataclass(frozen=True)
class Row:
    code: str | None
    param: str | None
    members: dict[str, Any] = field(default_factory=dict)
    raw: bytes | None = None
    status: int = 400
    path: str = CHAT

    def content(self) -> bytes:
        if self.raw is not None:
            return self.raw
        whole = chat_body() if self.path == CHAT else {"model": MODEL, "prompt": "x"}
        kept = {name: value for name, value in (whole | self.members).items() if value is not ...}
        return json.dumps(kept).encode()


def chat(code: str, param: str | None, **members: Any) -> Row:
    return Row(code, param, members)


def legacy(code: str, param: str | None, **members: Any) -> Row:
    return Row(code, param, members, path=COMPLETIONS)


def message(**members: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": "x"} | members]


BODIES = [
    Row("invalid_json", None, raw=b""),
    Row("invalid_json", None, raw=b'{"model": '),
    Row("invalid_json", None, raw=b'{"model": "\xff"}'),
    Row("invalid_json", None, raw=b'{"model": "\\ud800", "messages": []}'),
    Row("invalid_json", None, raw=b"[" * 5000),
    Row("invalid_type", None, raw=b"[]"),
    Row("invalid_type", None, raw=b"null"),
]
MEMBERS = [
    chat("missing_required_parameter", "model", model=...),
    chat("missing_required_parameter", "messages", messages=...),
    chat("unknown_parameter", "bogus", bogus=1, n="x"),
    chat("invalid_type", "model", model=5),
    chat("invalid_type", "n", n="1"),
    chat("invalid_type", "n", n=True),
    chat("invalid_value", "n", n=0),
    chat("invalid_value", "n", n=129),
    chat("invalid_type", "stream", stream="yes"),
    chat("invalid_value", "stream_options", stream_options={"include_usage": True}),
    chat("unknown_parameter", "stream_options.x", stream=True, stream_options={"x": 1}),
    chat("invalid_value", "temperature", temperature=2.1),
    chat("invalid_type", "temperature", temperature="hot"),
    chat("invalid_value", "temperature", temperature=float("nan")),
    chat("invalid_value", "top_p", top_p=-0.1),
    chat("invalid_value", "seed", seed=2**63),
    chat("invalid_value", "max_tokens", max_tokens=0),
    chat("invalid_value", "max_completion_tokens", max_completion_tokens=-1),
    chat("invalid_value", "max_tokens", max_tokens=1, max_completion_tokens=2),
    chat("invalid_value", "stop", stop=""),
    chat("invalid_type", "stop[1]", stop=["a", 1]),
    chat("invalid_value", "stop", stop=list("abcde")),
    chat("invalid_type", "user", user=5),
    chat("invalid_value", "user", user="a\0b"),
    chat("invalid_value", "model", model="a\0b"),
    chat("invalid_value", "metadata", metadata={"workload": "a\0b"}),
    chat("invalid_value", "metadata", metadata={str(i): "x" for i in range(17)}),
    chat("invalid_type", "metadata.a", metadata={"a": 1}),
    chat("invalid_value", "speculation", speculation="on"),
]
MESSAGES = [
    chat("empty_array", "messages", messages=[]),
    chat("invalid_type", "messages", messages="hello"),
    chat("invalid_type", "messages[0]", messages=["hello"]),
    chat("invalid_value", "messages[0].role", messages=message(role="wizard")),
    chat("unsupported_parameter", "messages[0].role", messages=message(role="tool", tool_call_id="x")),
    chat("missing_required_parameter", "messages[0].content", messages=[{"role": "user"}]),
    chat("invalid_type", "messages[0].content", messages=message(content=5)),
    chat("invalid_type", "messages[0].content", messages=message(content=None)),
    chat("invalid_value", "messages[0].content[1].type", messages=message(content=[PART, {"type": "image_url"}])),
    chat("invalid_type", "messages[0].content[0].text", messages=message(content=[{"type": "text", "text": 5}])),
    chat("unknown_parameter", "messages[0].mood", messages=message(mood="good")),
    chat(
        "unsupported_parameter", "messages[0].tool_calls", messages=message(role="assistant", tool_calls=[{"id": "1"}])
    ),
]
PREDICTIONS = [
    chat("invalid_type", "prediction", prediction=5),
    chat("invalid_type", "prediction", prediction=[PART]),
    chat("missing_required_parameter", "prediction.type", prediction={}),
    chat("missing_required_parameter", "prediction.type", prediction={"content": "x"}),
    chat("missing_required_parameter", "prediction.content", prediction={"type": "content"}),
    chat("invalid_value", "prediction.type", prediction={"type": "text", "content": "x"}),
    chat("invalid_value", "prediction.type", prediction={"type": 5, "content": "x"}),
    chat("invalid_type", "prediction.content", prediction={"type": "content", "content": None}),
    chat("invalid_type", "prediction.content", prediction={"type": "content", "content": {"text": "x"}}),
    chat("invalid_type", "prediction.content[0]", prediction={"type": "content", "content": ["x"]}),
    chat("missing_required_parameter", "prediction.content[0].type", prediction={"type": "content", "content": [{}]}),
    chat(
        "missing_required_parameter",
        "prediction.content[0].text",
        prediction={"type": "content", "content": [{"type": "text"}]},
    ),
    chat(
        "invalid_type",
        "prediction.content[0].text",
        prediction={"type": "content", "content": [{"type": "text", "text": 1}]},
    ),
    chat(
        "invalid_value",
        "prediction.content[1].type",
        prediction={"type": "content", "content": [PART, {"type": "image"}]},
    ),
    chat("unknown_parameter", "prediction.bogus", prediction={"type": "content", "content": "x", "bogus": 1}),
    legacy("invalid_value", "prediction.type", prediction={"type": "text", "content": "x"}),
]
UNSUPPORTED = [
    *(chat("unsupported_parameter", name, **{name: value}) for name, value in {
        "presence_penalty": 0.5,
        "frequency_penalty": -1,
        "logit_bias": {"50256": -100},
        "logprobs": True,
        "top_logprobs": 3,
        "response_format": {"type": "json_object"},
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "tool_choice": "required",
        "functions": [{"name": "f"}],
        "function_call": {"name": "f"},
        "modalities": ["text", "audio"],
        "audio": {"voice": "alloy"},
        "reasoning_effort": "high",
        "verbosity": "low",
        "web_search_options": {},
        "store": True,
        "service_tier": "flex",
    }.items()),
    *(legacy("unsupported_parameter", name, **{name: value}) for name, value in {
        "best_of": 2,
        "echo": True,
        "suffix": "x",
        "logprobs": 1,
        "presence_penalty": 1,
    }.items()),
]  # fmt: skip
PROMPTS = [
    legacy("missing_required_parameter", "prompt", prompt=...),
    legacy("invalid_type", "prompt", prompt=5),
    legacy("empty_array", "prompt", prompt=[]),
    legacy("invalid_type", "prompt[1]", prompt=["a", 1]),
    legacy("invalid_type", "prompt[0][1]", prompt=[[1, "a"]]),
    legacy("invalid_value", "prompt[1]", prompt=[1, -1]),
    legacy("invalid_value", "prompt", prompt=["x"] * 129),
    legacy("invalid_value", "n", prompt=["a", "b"], n=65),
    legacy("unknown_parameter", "messages", messages=message()),
]
ELSEWHERE = [
    Row("model_not_found", "model", {"model": "gpt-9"}, status=404),
    Row("model_not_found", "model", {"model": "gpt-9"}, status=404, path=COMPLETIONS),
    Row("unknown_url", None, status=404, path="/v1/chat/completion"),
    Row("method_not_allowed", None, status=405, path="/v1/models"),
    Row("request_too_large", None, raw=b"x" * (8 * 2**20 + 1), status=413),
]
TABLE = [*BODIES, *MEMBERS, *MESSAGES, *PREDICTIONS, *UNSUPPORTED, *PROMPTS, *ELSEWHERE]


def readme_rows() -> list[tuple[int, str]]:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    told = re.findall(r"^\| (\d+) \| `(?:\w+)` \| ([^|]+) \|", readme, re.MULTILINE)
    return [(int(status), code) for status, cell in told for code in re.findall(r"`(\w+)`", cell)]


def test_the_readme_tells_every_code_that_leaves_and_no_other() -> None:
    """As the source has them: a new code without a row fails here."""
    codes = all_codes()
    assert codes.unread == []
    assert len(codes.found) > 50
    assert {code for _, code in readme_rows()} == codes.found.keys() - BETWEEN_US
    assert codes.found.keys() >= BETWEEN_US, "it lists what nobody says any more"


def test_the_readme_tells_every_status_of_a_code_once() -> None:
    rows = readme_rows()
    assert len(rows) == len(set(rows))
    engines = {(status, code) for status, code in statuses() if code not in BETWEEN_US}
    assert {(row.status, row.code) for row in TABLE} | engines | {(429, "queue_full"), (503, "queue_full")} <= set(rows)


async def test_every_row(tmp_path: Path, subtests: pytest.Subtests) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        for row in TABLE:
            with subtests.test(f"{row.path} {row.content()[:60]!r}"):
                response = await gateway.http.post(row.path, content=row.content())
                assert response.status_code == row.status
                error = response.json()["error"]
                assert list(response.json()) == ["error"]
                assert sorted(error) == ["code", "message", "param", "type"]
                assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", row.code, row.param)
                assert isinstance(error["message"], str)
                assert len(error["message"]) > 20
                assert response.headers["x-request-id"]
        assert await gateway.rows("open") == []
        assert gateway.engine.requests == []
        assert (await gateway.chat()).status_code == 200


async def test_a_body_without_a_length_is_cut_at_the_limit_too(tmp_path: Path) -> None:
    async def chunks() -> Any:
        for _ in range(20):
            yield b" " * 100

    async with running(tmp_path, FakeEngine(), max_body_bytes=1000) as gateway:
        response = await gateway.http.post(CHAT, content=chunks())
        assert (response.status_code, response.json()["error"]["code"]) == (413, "request_too_large")
        exact = json.dumps(chat_body()).encode()
        assert (await gateway.http.post(CHAT, content=exact + b" " * (1000 - len(exact)))).status_code == 200


async def test_an_unknown_model_lists_what_the_key_may_use(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        message = (await gateway.chat(model="x" * 5000)).json()["error"]["message"]
        assert message.endswith("Models this key may use: `smollm2-135m`.")
        assert len(message) < 300


async def test_one_body_for_every_bad_key(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        unknown = "sk-sg-" + "a" * 12 + "-" + "b" * 43
        wrong_secret = gateway.key[:-3] + ("xyz" if gateway.key[-3:] != "xyz" else "abc")
        headers: list[dict[str, str]] = [
            {},
            {"authorization": "Bearer"},
            {"authorization": f"Basic {gateway.key}"},
            *({"authorization": f"Bearer {key}"} for key in (unknown, wrong_secret, "nonsense", "' OR 1=1 --")),
            {"x-api-key": unknown},
        ]
        del gateway.http.headers["authorization"]
        for path in (CHAT, COMPLETIONS):
            answers = [await gateway.http.post(path, headers=one, content=b"{") for one in headers]
            assert {(a.status_code, a.text) for a in answers} == {(401, answers[0].text)}
        assert answers[0].json()["error"]["code"] == "invalid_api_key"
        assert gateway.key not in answers[0].text
        by_other_header = await gateway.http.post(CHAT, json=chat_body(), headers={"x-api-key": gateway.key})
        assert by_other_header.status_code == 200


@pytest.mark.parametrize("streams", [False, True])
async def test_the_engines_refusal_comes_before_any_stream(tmp_path: Path, streams: bool) -> None:
    """A prompt that is too long: the engine counts, and nothing is billed."""
    told = "This model's context is 8192 tokens; the messages have 9000."
    refuse = EngineError(400, "context_length_exceeded", told, "messages")
    async with running(tmp_path, FakeEngine(Script(refuse=refuse))) as gateway:
        response = await gateway.chat(stream=streams)
        assert (response.status_code, response.headers["content-type"]) == (400, "application/json")
        assert response.json()["error"] == {
            "message": told,
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
        row = await gateway.settled()
        assert (row.outcome, row.generated_tokens, row.completion_tokens) == ("error", 0, 0)


@pytest.mark.parametrize("streams", [False, True])
async def test_an_engine_that_is_away_is_a_503(tmp_path: Path, streams: bool) -> None:
    refuse = EngineError(503, "engine_unavailable", "The engine is being started again.")
    async with running(tmp_path, FakeEngine(Script(refuse=refuse))) as gateway:
        response = await gateway.chat(stream=streams)
        assert (response.status_code, response.json()["error"]["code"]) == (503, "engine_unavailable")
        assert response.json()["error"]["type"] == "server_error"
        assert response.headers["retry-after"] == "2"


async def test_what_nobody_expected_is_a_plain_500(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(FakeEngine):
        def generate(self, request: Any) -> Any:
            raise ValueError("the prompt was: secret words")

    async with running(tmp_path, Broken()) as gateway:
        response = await gateway.chat()
        assert (response.status_code, response.json()["error"]["code"]) == (500, "server_error")
        assert "secret words" not in response.text + caplog.text
        assert (await gateway.settled()).outcome == "error"


async def test_odd_text_where_it_belongs_is_fine(tmp_path: Path) -> None:
    """NUL and every control character may stand in messages and predictions."""
    odd = "".join(map(chr, range(32))) + "\x7f\u2028é😀<|im_end|>"
    async with running(tmp_path, FakeEngine()) as gateway:
        response = await gateway.chat(messages=[{"role": "user", "content": odd}], prediction=odd)
        assert response.status_code == 200
        request = gateway.engine.requests[0]
        assert request.messages is not None
        assert (request.messages[0].content, request.prediction) == (odd, odd)
