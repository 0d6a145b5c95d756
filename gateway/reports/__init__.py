"""What was used and what speculation did, as rows: one function a report, from storage's sums to plain members. Pure.

completions   OpenAI's usage report
costs         OpenAI's costs
speculation   what each proposer did, how long it took, whether it pays
break_even    that verdict
savings       the time it saved, as far as it is known
entries       settlements and adjustments one by one
pages         rows in OpenAI's page of buckets, or one after the other
csv           rows as lines

The API answers them as JSON and as CSV, the commands and the dashboard draw them: none of these counts for itself.
"""
