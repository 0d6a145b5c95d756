"""The published OpenAPI document: what each route takes and answers, in a table beside that of scopes.

operations   one row a route; a test fails for a route without one
parameters   what stands in a query string or a header
answers      the shapes of answers
document     all of it as one JSON document, made once and served at /openapi.json
"""

from gateway.openapi.document import document

__all__ = ["document"]
