"""Sums of settled rows by hour and by day, so that no report reads history.

facts          the sums of any rows: the one place that says how a row counts
rows           settled rows and adjustments of a range, through their index
rollup         what is rolled up: usage, and whatever else has the same few members
usage_rollup   that of usage, by series
series         what its sums are kept of, at three levels
packed         histograms and proposers as bytes that add up end to end
roller         writes each hour and day once it is final
watermark      how far that has come
write          rows into their tables, again and again alike
kept           from when on settled rows are still there
check          whether the sums are those of the rows
rebuild        the sums anew, from the rows that are kept
read           sums for a report, from days, hours and rows
"""
