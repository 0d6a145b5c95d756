"""Guesses of what comes next, and the one rule that lets only the target's own tokens through.

    propose (prediction, lookup) → guard → cascade → draft_length → the engine's pass → verify → observe

`drafter.Drafter` is what the engine holds; `proposer.Proposer` is the seam that every source of drafts fills.
"""
