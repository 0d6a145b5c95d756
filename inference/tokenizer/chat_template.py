"""A model's chat template: messages in, one text out. Templates come with models, so they run in a sandbox."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from inference.protocol import ChatMessage, EngineError

TEMPLATE_FAULTS = (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError)
"""What a template raises when it meets messages that it was not written for."""


class ChatTemplate:
    """Renders with the names that transformers gives to templates."""

    def __init__(self, source: str, named_tokens: dict[str, str]) -> None:
        self._template = _environment().from_string(source)
        self._named_tokens = named_tokens

    def render(self, messages: Sequence[ChatMessage]) -> str:
        """The conversation and the opening of the assistant's turn."""
        turns = [message.model_dump() for message in messages]
        try:
            return self._template.render(messages=turns, add_generation_prompt=True, **self._named_tokens)
        except TEMPLATE_FAULTS as error:
            told = f"The model's chat template refuses these messages: {error}"
            raise EngineError(400, "invalid_messages", told, "messages") from error


class _Generation(Extension):
    """`{% generation %}` marks the assistant's words for training; here it is only what stands inside."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    env.filters["tojson"] = _to_json
    env.globals["raise_exception"] = _raise
    env.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return env


def _to_json(value: Any, indent: int | None = None, ensure_ascii: bool = False, **options: Any) -> str:
    """jinja2's own filter escapes for HTML."""
    return json.dumps(value, indent=indent, ensure_ascii=ensure_ascii, **options)


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
