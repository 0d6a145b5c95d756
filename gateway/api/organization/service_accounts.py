"""/v1/organization/projects/{project_id}/service_accounts: where the keys of a project are made."""

from typing import Any

from fastapi import APIRouter, Request, Response

from gateway.api.answers import answer, body
from gateway.api.conditional import match_if_given
from gateway.api.organization.found import Place, place
from gateway.api.organization.new_key import ends_at, granted, made
from gateway.errors import InvalidRequest
from gateway.openai.organization_objects import (
    Object,
    account_object,
    deleted,
    key_object,
    listing,
    new_key_object,
)
from gateway.openai.organization_schema import KeyCreate, KeyOptions, ServiceAccountCreate, ServiceAccountUpdate
from gateway.parts import principal_of
from gateway.query import PAGE, read_query
from gateway.work import changing, reading
from storage.api_keys import ApiKeys
from storage.service_accounts import ServiceAccounts
from storage.values import ServiceAccount

router = APIRouter(prefix="/v1/organization/projects/{project_id}/service_accounts")


@router.get("")
async def list_accounts(request: Request, project_id: str) -> dict[str, Any]:
    query = read_query(request.query_params.multi_items(), PAGE)
    async with reading(request) as session:
        at = await place(request, session, project_id)
        found, has_more = await ServiceAccounts(session, at.project.id).page(query.cursor())
    return listing([account_object(account) for account in found], has_more)


@router.post("")
async def create(request: Request, project_id: str) -> Response:
    """With its first key, whose secret is in this answer alone."""
    asked = await body(request, ServiceAccountCreate)
    is_alone = bool(asked.create_service_account_only)
    if is_alone and asked.expires_in_seconds is not None:
        raise InvalidRequest("An account without a key has nothing that expires; leave it out.", "expires_in_seconds")
    async with changing(request) as session:
        at = await place(request, session, project_id, for_update=True)
        at.require_active()
        accounts = ServiceAccounts(session, at.project.id)
        account = await accounts.create(asked.name, "none" if is_alone else "member")
        told = account_object(account)
        await at.record(request, "service_account.created", account.id, None, told)
        key = None if is_alone else await _new_key(request, at, account, asked, asked.name)
    return answer(told | {"api_key": key}, account.version)


@router.get("/{account_id}")
async def retrieve(request: Request, project_id: str, account_id: str) -> Response:
    async with reading(request) as session:
        account = await (await place(request, session, project_id)).account(account_id)
    return answer(account_object(account), account.version)


@router.post("/{account_id}")
async def update(request: Request, project_id: str, account_id: str) -> Response:
    asked = await body(request, ServiceAccountUpdate)
    async with changing(request) as session:
        at = await place(request, session, project_id)
        before = await at.account(account_id, for_update=True)
        match_if_given(request, before.version)
        wanted = (asked.name or before.name, asked.role or before.role)
        after = before
        if wanted != (before.name, before.role):
            after = await ServiceAccounts(session, at.project.id).update(before, *wanted)
            told = (account_object(before), account_object(after))
            await at.record(request, "service_account.updated", after.id, *told)
    return answer(account_object(after), after.version)


@router.delete("/{account_id}")
async def delete(request: Request, project_id: str, account_id: str) -> dict[str, Any]:
    """Its keys are refused within a second, their open streams cut within five."""
    async with changing(request) as session:
        at = await place(request, session, project_id)
        account = await at.account(account_id, for_update=True)
        revoked = await ApiKeys(session).revoke_of(account.id)
        await ServiceAccounts(session, at.project.id).delete(account)
        await at.record(request, "service_account.deleted", account.id, account_object(account), None)
        for id in revoked:
            await at.record(request, "api_key.deleted", id, None, None)
    return deleted("organization.project.service_account", account_id)


@router.post("/{account_id}/api_keys")
async def create_key(request: Request, project_id: str, account_id: str) -> Response:
    asked = await body(request, KeyCreate)
    async with changing(request) as session:
        at = await place(request, session, project_id, for_update=True)
        at.require_active()
        account = await at.account(account_id, for_update=True)
        key = await _new_key(request, at, account, asked, asked.name or account.name)
    return answer(key, key["version"])


async def _new_key(request: Request, at: Place, account: ServiceAccount, asked: KeyOptions, name: str) -> Object:
    options: dict[str, Any] = {
        "project_id": at.project.id,
        "service_account_id": account.id,
        "scopes": granted("inference", asked.scopes, principal_of(request)),
        "allowed_models": None if asked.allowed_models is None else sorted(set(asked.allowed_models)),
        "expires_at": ends_at(asked.expires_in_seconds),
    }
    new = await ApiKeys(at.session).create(at.tenant_id, "inference", name, **options)
    key = await made(at.session, new.public_id)
    await at.record(request, "api_key.created", key.public_id, None, key_object(key, account))
    return new_key_object(key, new)
