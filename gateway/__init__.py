"""The OpenAI face: who may ask, where it goes, what it cost.

    key → Principal → body → model → engine request         `admit` (everything that can be refused is refused here)
    open → accepted → events → settle                       `completion` (one path for all endpoints, metered)
    headers → chunks → usage → [DONE]                       `answers` (settled on every exit)

Sees the engine only as `inference.protocol.InferenceClient`, and imports no torch.
"""
