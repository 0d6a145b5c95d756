"""OpenAI's organization admin routes, so that the official clients' `client.admin.organization.*` works here.

Each acts in one tenant (`gateway.organization`); what belongs to another one is not found. Changes are written with
their audit event or not at all. `If-Match` is honoured where it is sent: the official clients send none.
"""

from gateway.api.organization import admin_api_keys, api_keys, audit_logs, projects, rate_limits, service_accounts

ROUTERS = (
    projects.router,
    service_accounts.router,
    api_keys.router,
    rate_limits.router,
    admin_api_keys.router,
    audit_logs.router,
)
