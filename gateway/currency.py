"""One currency an installation: fixed by the first price that was set, and refused at the start where it differs."""

from gateway.home import HomeRefused
from storage import Database
from storage.prices import Prices


async def settle_currency(db: Database, wanted: str | None) -> None:
    """Raises HomeRefused where prices are in another one."""
    async with db.unit() as session:
        prices = Prices(session)
        kept = await prices.fix_currency(wanted) if await prices.exist() else await prices.currency(wanted)
    if wanted and kept != wanted:
        raise HomeRefused(
            f"SPECGATE_CURRENCY is {wanted}, but the prices of this installation are in {kept}, and stay so: usage "
            f"was billed in it. Set SPECGATE_CURRENCY={kept}, or leave it out."
        )
