"""The ledger's entries, sent to whoever wants them: at least once, in order, by one gateway at a time.

signing    how a receiver knows that it is from us
webhook    one batch, posted
exporter   whose turn it is, from where, and how soon again
"""
