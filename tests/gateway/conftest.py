"""PostgreSQL for the tests that need several gateways on one database."""

from tests.storage.conftest import postgres, postgres_url, template

__all__ = ["postgres", "postgres_url", "template"]
