"""Hostile text is refused before a transaction, or kept as it is; it never costs a neighbour its row."""

import pytest

from storage import Database
from storage.ledger import Ledger
from storage.values import Figures, ProposerFigures
from tests.storage.entries import open_requests, opening, problems, settle

HOSTILE = {"NUL": "a\0b", "surrogate": "a\ud800b", "a megabyte": "a" * 2**20, "empty": ""}


@pytest.mark.parametrize(
    "field", ["request_id", "tenant_id", "key_id", "model", "route", "owner", "workload", "user_hash"]
)
@pytest.mark.parametrize("kind", HOSTILE)
def test_an_entry_refuses_text_it_could_not_keep(field: str, kind: str) -> None:
    with pytest.raises(ValueError, match=field) as refused:
        opening(**{"request_id": "r1", field: HOSTILE[kind]})
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("label", ["Upper", "space here", "a" * 65, "ü", "a/b", "a\n"])
def test_a_workload_label_is_short_and_plain(label: str) -> None:
    with pytest.raises(ValueError, match="workload"):
        opening("r1", workload=label)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_proposer_name_is_checked_too(kind: str) -> None:
    with pytest.raises(ValueError, match="proposer"):
        Figures(by_proposer={HOSTILE[kind]: ProposerFigures()})


@pytest.mark.anyio
async def test_odd_but_storable_text_comes_back_as_it_was(db: Database) -> None:
    model = "模型/é\u2028'\"; DROP TABLE ledger_entries; --\x7f\U0001f9ea"
    await open_requests(db, "odd", model=model)
    await open_requests(db, "neighbour")
    async with db.view() as session:
        found = {entry.request_id: entry.model for entry in await Ledger(session).unsettled()}
    assert found == {"odd": model, "neighbour": "tiny"}
    assert await settle(db, "odd")
    assert await settle(db, "neighbour")
    assert await problems(db) == []
