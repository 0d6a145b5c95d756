"""A deployment as the admin API tells it: what was asked, what drafts, what its engines do, what it can. Pure."""

from datetime import datetime
from typing import Any

from gateway.deployments.capabilities import capabilities, told_of
from gateway.deployments.document import document_of
from gateway.deployments.replica import Replica
from gateway.deployments.serving import Serving, ServingState, causes_of, state_of
from gateway.deployments.speculation import read
from inference.protocol import WorkerReady
from storage.values.deployments import Deployment, DrafterVersion

NOT_FOLLOWED = ServingState("loading", "This gateway has not looked at it yet.")


def view(deployment: Deployment, version: DrafterVersion, serving: Serving | None) -> dict[str, Any]:
    """`serving`: what this gateway makes of it."""
    speculation = read(version.config)
    return {
        "object": "deployment",
        "id": deployment.id,
        **settable(deployment, version),
        "drafts": told_of(speculation) if speculation else "Its drafters were configured by another release.",
        "speculation_version": version_view(version),
        "state": _state(serving),
        "capabilities": capabilities(facts_of(serving)),
        "version": deployment.version,
        "created_at": seconds(deployment.created_at),
        "updated_at": seconds(deployment.updated_at),
    }


def settable(deployment: Deployment, version: DrafterVersion) -> dict[str, Any]:
    """What a change may name, as it is now."""
    speculation = read(version.config)
    kept = speculation.model_dump(mode="json") if speculation else dict(version.config)
    return document_of(deployment.spec).model_dump(mode="json") | {"speculation": kept}


def facts_of(serving: Serving | None) -> WorkerReady | None:
    """What the first engine that is there says of itself."""
    replicas = serving.current.replicas if serving and serving.current else []
    return next((replica.facts for replica in replicas if replica.facts), None)


def version_view(version: DrafterVersion) -> dict[str, Any]:
    return {
        "object": "deployment.version",
        "id": f"{version.deployment_id}/{version.version}",
        "version": version.version,
        "author": version.author,
        "reason": version.reason,
        "created_at": seconds(version.created_at),
    }


def seconds(at: datetime) -> int:
    return int(at.timestamp())


def _state(serving: Serving | None) -> dict[str, Any]:
    state = state_of(serving) if serving else NOT_FOLLOWED
    replicas = serving.current.replicas if serving and serving.current else []
    return {
        "phase": state.phase,
        "detail": state.detail,
        "cause": " ".join(causes_of(serving)) or None if serving else None,
        "replicas": [_replica(one) for one in replicas],
    }


def _replica(replica: Replica) -> dict[str, Any]:
    state, load = replica.engine.state, replica.load
    return {
        "index": replica.index,
        "phase": state.phase,
        "detail": state.detail,
        "cause": state.cause or None,
        "restarts": state.restarts,
        "in_flight": replica.in_flight,
        "cools": replica.cools,
        "waiting": load.waiting if load else None,
        "running": load.running if load else None,
        "speculation_version": load.config_version if load else None,
        "resting_drafters": list(load.resting_drafters) if load else [],
        "refusal": replica.refusal,
    }
