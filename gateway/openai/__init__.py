"""OpenAI's words, and nothing else: what a request may say, how an answer is spelled.

    bytes → `parse` → `schema` → `translate` → GenerationRequest        (pure; refuses in OpenAI's envelope)
    TokenEvent → `translate` → dict → `sse` → bytes

Knows no tenant's data, no ledger and no engine.
"""
