"""`specgate usage`: the report's figures under their headings."""

from rich.console import Console

from gateway.cli.usage import table

SPECULATION = {
    "steps": 40,
    "passes_saved": 77,
    "acceptance_rate": 0.875,
    "accepted_prediction_tokens": 67,
    "rejected_prediction_tokens": 24,
}
RESULT = {
    "num_model_requests": 1234,
    "input_tokens": 5678,
    "input_cached_tokens": 90,
    "output_tokens": 118,
    "model": "tiny",
    "speculation": SPECULATION,
}
UNUSED = RESULT | {"model": "other", "speculation": SPECULATION | {"acceptance_rate": None}}


def bucket(day: str, *results: object) -> dict[str, object]:
    return {"start_time_iso": f"{day}T00:00:00Z", "results": list(results)}


def test_a_row_for_each_group_of_each_day_that_had_a_request() -> None:
    report = {"data": [bucket("2026-01-02", RESULT, UNUSED), bucket("2026-01-03")]}
    console = Console(width=200)
    with console.capture() as captured:
        console.print(table(report, ["model"]))
    heading, *rows = [line.split() for line in captured.get().splitlines()]
    assert " ".join(heading).startswith("day model requests input cached output passes passes saved")
    assert rows == [
        ["2026-01-02", "tiny", "1,234", "5,678", "90", "118", "40", "77", "87.5%", "67", "24"],
        ["2026-01-02", "other", "1,234", "5,678", "90", "118", "40", "77", "-", "67", "24"],
    ]
