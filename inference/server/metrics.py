"""The worker's figures as Prometheus text. No label holds anything that a request said."""

from inference.protocol import WorkerLoad


def exposition(load: WorkerLoad, open_requests: int) -> str:
    gauges = {
        "waiting_sequences": load.waiting,
        "running_sequences": load.running,
        "free_blocks": load.free_blocks,
        "blocks": load.num_blocks,
        "speculation_config_version": load.config_version,
        "open_requests": open_requests,
    }
    lines = [text for name, value in gauges.items() for text in _sample(name, "gauge", value)]
    for name, value in {"passes_total": load.passes, "preemptions_total": load.preemptions}.items():
        lines += _sample(name, "counter", value)
    lines.append("# TYPE specgate_engine_drafter_faults_total counter")
    for proposer, faults in sorted(load.drafter_faults.items()):
        lines.append(f'specgate_engine_drafter_faults_total{{proposer="{proposer}"}} {faults}')
    lines.append("# TYPE specgate_engine_drafter_resting gauge")
    lines += [f'specgate_engine_drafter_resting{{proposer="{name}"}} 1' for name in load.resting_drafters]
    return "\n".join(lines) + "\n"


def _sample(name: str, kind: str, value: int) -> tuple[str, str]:
    return f"# TYPE specgate_engine_{name} {kind}", f"specgate_engine_{name} {value}"
