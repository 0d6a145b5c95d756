"""The model: a batch of rows in, logits out, and one token a row.

    loader        a local folder → LoadedModel; what cannot be served exactly is refused by name (architecture, parity)
    runner        Batch → logits; everything that touches the device
    paging        where rows lie in the paged cache
    attention     K/V into the pages, attention through the block table
    sampling      logits → token ids, with the noise of `noise`

Knows token ids and blocks; knows no text, no request and no schedule.
"""
