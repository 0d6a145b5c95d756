"""Sums of settled rows by hour and by day, so that no report reads history.

facts     the sums of any rows: the one place that says how a row counts
rows      settled rows and adjustments of a range, through their index
rollup    what is rolled up: usage, and whatever else has the same few members
"""
