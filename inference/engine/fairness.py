"""Who may have how much of a pass, by `cache_salt`: nobody's flood takes another's turn.

    shares   max-min: each gets what it wants up to an equal part; what it leaves goes to the others
    places   a salt below its part of the running places may take one from the salt furthest above its own

Pure functions of counts. Fair at every pass, they need no deficit to carry over, except for the single rows that do not
divide: those go to the salts in the order given, so the caller puts the least recently served first.
"""

from collections.abc import Mapping


def fair_shares(wanted: Mapping[str, int], total: int) -> dict[str, int]:
    """Divide `total` rows among the salts that want some."""
    shares = dict.fromkeys(wanted, 0)
    unmet = [salt for salt, rows in wanted.items() if rows > 0]
    while unmet:
        part, odd = divmod(total, len(unmet))
        modest = [salt for salt in unmet if wanted[salt] <= part]
        if not modest:
            return shares | {salt: part + (index < odd) for index, salt in enumerate(unmet)}
        shares |= {salt: wanted[salt] for salt in modest}
        total -= sum(wanted[salt] for salt in modest)
        unmet = [salt for salt in unmet if wanted[salt] > part]
    return shares


def gives_way(running: Mapping[str, int], to: str) -> str | None:
    """The salt that should give a running place to `to`; None where that would only turn the tables."""
    if not running:
        return None
    most = max(running, key=lambda salt: running[salt])
    return most if running[most] > running.get(to, 0) + 1 else None
