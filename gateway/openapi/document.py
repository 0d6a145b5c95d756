"""The table of operations as one OpenAPI 3.1 document."""

from collections.abc import Iterable
from copy import deepcopy
from importlib.metadata import version

from gateway.access import NO_KEY
from gateway.openapi.answers import SCHEMAS, Object, ref
from gateway.openapi.operations import OPERATIONS, Operation, path_parameters

KEYS: Object = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}
REFS = "#/components/schemas/{model}"


def document(routes: Iterable[tuple[str, str]]) -> Object:
    """Of these (method, path) alone: a bind without admin routes does not tell of them."""
    schemas = deepcopy(SCHEMAS)
    paths: Object = {}
    for method, path in routes:
        operation = OPERATIONS[method, path]
        told = _operation(operation, method, path, schemas)
        paths.setdefault(path.replace(":path}", "}"), {})[method.lower()] = told
    return {
        "openapi": "3.1.0",
        "info": {"title": "SpecGate", "version": version("specgate")},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": KEYS},
    }


def _operation(operation: Operation, method: str, path: str, schemas: Object) -> Object:
    told: Object = {
        "summary": operation.summary,
        "operationId": _id(method, path),
        "parameters": [*path_parameters(path), *operation.parameters],
        "responses": _responses(operation),
        "security": [] if (method, path) in NO_KEY else [{name: []} for name in KEYS],
    }
    if operation.body is not None:
        schema = _body(operation, schemas)
        is_required = not operation.body_may_be_left_out
        told["requestBody"] = {"required": is_required, "content": {"application/json": {"schema": schema}}}
    return told


def _responses(operation: Operation) -> Object:
    content: Object = {"text/plain" if operation.is_text else "application/json": {"schema": operation.answer}}
    if operation.streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    if operation.is_table:
        content["text/csv"] = {"schema": {"type": "string"}}
    refused = {"description": "Refused; the code says why", "content": {"application/json": {"schema": ref("Error")}}}
    return {"200": {"description": operation.summary, "content": content}, "4XX": refused, "5XX": refused}


def _body(operation: Operation, schemas: Object) -> Object:
    assert operation.body is not None
    name = operation.body.__name__
    schema = operation.body.model_json_schema(ref_template=REFS)
    schemas.update(schema.pop("$defs", {}))
    if operation.is_patch:
        name, schema = f"{name}Patch", _patch(schema)
    schemas[name] = schema
    return ref(name)


def _patch(schema: Object) -> Object:
    """A part of it: what is left out stays."""
    return {key: value for key, value in schema.items() if key != "required"}


def _id(method: str, path: str) -> str:
    words = [part.strip("{}").partition(":")[0] for part in path.split("/") if part]
    return "_".join([method.lower(), *words]).replace(".", "_")
