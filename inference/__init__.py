"""Messages in, tokens out, as fast as stays exact.

A step:  schedule → forward → sample → verify → commit → propose      (`engine/engine.py`)
A layer: server → engine → speculation → model → (sequence, tokenizer, client) → config → protocol

Knows no tenant and no price: a tenant reaches it only as an opaque `cache_salt` and a `priority`.
`protocol` and `client` import no torch, so that the gateway can use them.
"""
