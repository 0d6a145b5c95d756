"""The edit that `specgate demo` shows: a file, what to change in it, and one solved example before it.

Chosen by trying: SmolLM2-135M copies more than it edits, and this is a case whose greedy answer is the edit asked
for, and nothing else. A test holds the answer to `EDITED`.
"""

from typing import Any

INSTRUCTION = "Use f-strings."

ORIGINAL = """\
def greet(name):
    return "Hello, " + name + "!"


def farewell(name):
    return "Goodbye, " + name + "!"


def welcome(name):
    return "Welcome back, " + name + "!"


def main():
    names = ["Alice", "Bob", "Charlie"]
    for name in names:
        print(greet(name))
        print(farewell(name))
        print(welcome(name))


if __name__ == "__main__":
    main()
"""

EDITED = (
    ORIGINAL.replace('"Hello, " + name + "!"', 'f"Hello, {name}!"')
    .replace('"Goodbye, " + name + "!"', 'f"Goodbye, {name}!"')
    .replace('"Welcome back, " + name + "!"', 'f"Welcome back, {name}!"')
)

EXAMPLE_BEFORE = """\
def label(name, price):
    return "Item " + name + " costs " + price + "."


print(label("tea", "2"))
"""

EXAMPLE_AFTER = """\
def label(name, price):
    return f"Item {name} costs {price}."


print(label("tea", "2"))
"""


def ask(file: str, instruction: str = INSTRUCTION) -> str:
    return f"{instruction}\nRewrite the whole file with this change. Output only the code.\n\n{fenced(file)}"


def fenced(code: str) -> str:
    return f"```python\n{code}```"


def unfenced(answer: str) -> str:
    """The code of an answer that is one fenced block, else the answer."""
    head, _, rest = answer.partition("```python\n")
    code, fence, _ = rest.partition("```")
    return code if not head.strip() and fence else answer


def request(model: str, file: str = ORIGINAL, instruction: str = INSTRUCTION) -> dict[str, Any]:
    """The request without a prediction."""
    messages = [
        {"role": "user", "content": ask(EXAMPLE_BEFORE)},
        {"role": "assistant", "content": fenced(EXAMPLE_AFTER)},
        {"role": "user", "content": ask(file, instruction)},
    ]
    return {"model": model, "messages": messages, "temperature": 0, "max_completion_tokens": 512}
