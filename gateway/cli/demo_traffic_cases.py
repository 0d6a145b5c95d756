"""What `specgate demo-traffic` asks: three kinds of work that speculation helps much, some and hardly. Pure.

    code-edits    the file as `prediction`            Editor
    extraction    the answer stands in the prompt     Editor
    support-chat  nothing to draft from               Support

All answers are short and of one length, and asked one after the other: like work at like load, so that few controls
say much. The first is too long for any context, and fails; one in twenty is left half-way.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gateway.cli.demo_case import ask

EDITOR, SUPPORT = "Editor", "Support"
TOKENS = 32
LEFT = 20
"""One in so many."""
TOO_MANY = 40_000
NOUNS = ("order", "invoice", "ticket", "parcel", "account", "report", "photo", "ledger", "garden", "engine")
EDITS = (
    (
        "Use f-strings.",
        'def open_{noun}(name):\n    return "Opened {noun} " + name + "."\n\n\n'
        'def close_{noun}(name):\n    return "Closed {noun} " + name + "."\n\n\n'
        'print(open_{noun}("a{number}"))\nprint(close_{noun}("a{number}"))\n',
    ),
    (
        "Rename total to amount.",
        "def total(prices):\n    return sum(prices)\n\n\n"
        "def {noun}_with_tax(prices):\n    return total(prices) * 1.{number}\n\n\n"
        "print({noun}_with_tax([1, 2, {number}]))\n",
    ),
    (
        "Add type hints.",
        "class {title}:\n    def __init__(self, number, price):\n"
        "        self.number = number\n        self.price = price\n\n"
        "    def cost(self):\n        return self.number * self.price\n\n\n"
        "print({title}({number}, 3).cost())\n",
    ),
)
QUESTIONS = (
    "My {noun} has not arrived after {number} days. What can I do?",
    "How do I change the address of {noun} {number}?",
    "Can I return a {noun} that I bought {number} days ago?",
    "Which {noun} would you take for a family of {number}?",
)
RECORDS = "{noun}-{number}: status=shipped weight={number}kg city=Lisbon\n"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, and who asks it."""

    project: str
    body: dict[str, Any]
    leaves: bool = False
    """After the first words."""


def traffic(model: str, count: int, seed: int = 1) -> Iterator[Asked]:
    """The same for the same seed."""
    draw = random.Random(seed)
    yield Asked(SUPPORT, _common(model) | _labelled("support-chat", "Hello! " * TOO_MANY))
    for number in range(1, count):
        project, body = draw.choices((_edit, _chat, _extraction), (5, 3, 2))[0](draw)
        yield Asked(project, _common(model) | body, leaves=number % LEFT == 0)


def _common(model: str) -> dict[str, Any]:
    return {"model": model, "max_completion_tokens": TOKENS, "stream": True, "temperature": 0}


def _labelled(workload: str, content: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}], "metadata": {"workload": workload}} | more


def _edit(draw: random.Random) -> tuple[str, dict[str, Any]]:
    instruction, template = draw.choice(EDITS)
    file = _filled(draw, template)
    prediction = {"type": "content", "content": file}
    return EDITOR, _labelled("code-edits", ask(file, instruction), prediction=prediction)


def _chat(draw: random.Random) -> tuple[str, dict[str, Any]]:
    return SUPPORT, _labelled("support-chat", _filled(draw, draw.choice(QUESTIONS)), temperature=0.7)


def _extraction(draw: random.Random) -> tuple[str, dict[str, Any]]:
    records = "".join(_filled(draw, RECORDS) for _ in range(6))
    return EDITOR, _labelled("extraction", f"Copy these records as they are, one a line:\n\n{records}")


def _filled(draw: random.Random, template: str) -> str:
    noun, number = draw.choice(NOUNS), draw.randint(10, 99)
    return template.format(noun=noun, title=noun.title(), number=number)
