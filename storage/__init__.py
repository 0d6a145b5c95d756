"""What must outlive a process: tenants, keys and the usage ledger, in SQLite or PostgreSQL.

`Database.unit()` is one unit of work and the only place that commits; `Database.view()` only reads. Repositories
(`ApiKeys`, `Tenants`, `Ledger`, `Usage`) take the session that either yields, and speak in the values of
`storage.values`. Knows neither the gateway nor the engine; stores no prompt, prediction or output.
"""

from storage.database import Database
from storage.errors import SchemaOutdated, StorageAway, StorageError, UnknownRequest

__all__ = ["Database", "SchemaOutdated", "StorageAway", "StorageError", "UnknownRequest"]
