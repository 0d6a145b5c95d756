"""A deployment's prices, as they were once decided. Never changed: another price is another version."""

from dataclasses import dataclass
from datetime import datetime

from storage.money import Price
from storage.texts import check_text


@dataclass(frozen=True, slots=True)
class PriceVersion:
    deployment_id: str
    version: int
    price: Price
    author: str
    """The public id of a key, or `system`."""
    reason: str
    created_at: datetime

    def __post_init__(self) -> None:
        check_text("author", self.author, 128)
        check_text("reason", self.reason, 1024)
