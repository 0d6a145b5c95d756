"""The reports that are asked in the benchmark, as the API, the commands and the dashboard ask them."""

from datetime import timedelta

from storage.usage import UsageQuery
from tests.benchmarks.report_rows import NOW

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
TENANT, KEY = "tenant-003", "key003000001"
MIX = {
    "a tenant, 7 days by day": UsageQuery(NOW - 7 * DAY, NOW, DAY, (), [TENANT]),
    "a tenant, 31 days by day and model": UsageQuery(NOW - 31 * DAY, NOW, DAY, ("model",), [TENANT]),
    "a tenant, 31 days by day, drafter, workload and cohort": UsageQuery(
        NOW - 31 * DAY, NOW, DAY, ("deployment_id", "config_version", "workload", "cohort"), [TENANT]
    ),
    "a tenant, 168 hours by deployment": UsageQuery(NOW - 168 * HOUR, NOW, HOUR, ("deployment_id",), [TENANT]),
    "a tenant, 60 minutes by minute": UsageQuery(NOW - 60 * MINUTE, NOW, MINUTE, (), [TENANT]),
    "a tenant's keys, 31 days by day": UsageQuery(NOW - 31 * DAY, NOW, DAY, ("key_id",), [TENANT]),
    "a key, 31 days by day": UsageQuery(NOW - 31 * DAY, NOW, DAY, (), [TENANT], key_ids=[KEY]),
    "a project, 24 hours by hour": UsageQuery(NOW - DAY, NOW, HOUR, (), project_ids=["proj_0030"]),
    "the fleet, 31 days by day, drafter and cohort": UsageQuery(
        NOW - 31 * DAY, NOW, DAY, ("deployment_id", "config_version", "cohort")
    ),
    "the fleet, 168 hours by deployment": UsageQuery(NOW - 168 * HOUR, NOW, HOUR, ("deployment_id",)),
    "the fleet, 90 days by deployment and workload": UsageQuery(
        NOW - 90 * DAY, NOW, None, ("deployment_id", "workload", "cohort")
    ),
    "all tenants, 7 days by day": UsageQuery(NOW - 7 * DAY, NOW, DAY, ("tenant_id",)),
    "all tenants, 31 days": UsageQuery(NOW - 31 * DAY, NOW, None, ("tenant_id",)),
    "all keys, 7 days": UsageQuery(NOW - 7 * DAY, NOW, None, ("tenant_id", "key_id")),
}
