"""What Prometheus is told: names, increments, the registry they go to, and the state that is looked at on a scrape.

    a request settles → increments (pure) → Metrics ─┐
    a scrape → state of engines, ledger, stores ─────┴→ exposition

No label holds a key, a request or anything that a client wrote: tenants, deployments and their names are operators'.
"""
