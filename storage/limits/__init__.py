"""How much a tenant, a project and a key may ask for: held before a request runs, corrected after it.

    Claim ── reserve ──► Reservation ── adjust ──► … ── release(Used) ──►
                 └─────► Refusal, and nothing was changed

`Limiter` is the one face. Rates and concurrency are counted in the database or in Redis, budgets always in the
database. Whatever is asked is decided by `rules`: first concurrency, then rates, then budgets, at every level.
"""
