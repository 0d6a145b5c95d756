"""What can go wrong in storage, for a caller to act on.

StorageError
├── StorageAway      the database does not answer now: try again (503)
│   └── StorageFull  its disk is full: try again once there is room (503)
├── SchemaOutdated   the schema is older than this program: upgrade it
├── KeyRefused       a preset key that cannot be used, and why
├── UnknownCursor    a page was asked for from a row that is not in its list
└── UnknownRequest   a settlement or checkpoint of a request that was never opened
"""

import sqlite3

POSTGRES_FULL = "53100"
"""SQLSTATE of `disk_full`."""


class StorageError(Exception):
    """Any failure of storage."""


class StorageAway(StorageError):
    """The database does not answer; nothing was committed, or it is unknown whether it was."""


class StorageFull(StorageAway):
    """The disk is full; nothing was committed."""


class SchemaOutdated(StorageError):
    """The database was made by an older version and is not migrated by a start."""


class KeyRefused(StorageError):
    """A preset key was refused. The message says why and never holds the key."""


class UnknownRequest(StorageError):
    """There is no open entry for this request."""


class UnknownCursor(StorageError):
    """`args[0]` is the parameter that named the row."""


def away(error: BaseException | None) -> StorageAway:
    """What the driver said, and nothing else: SQLAlchemy's own message would add the statement."""
    codes = getattr(error, "sqlite_errorcode", None), getattr(error, "sqlstate", None)
    is_full = codes in ((sqlite3.SQLITE_FULL, None), (None, POSTGRES_FULL))
    return StorageFull(str(error)) if is_full else StorageAway(str(error))
