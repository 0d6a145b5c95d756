"""Time that speculation saved, estimated from a randomised holdout. Pure but for `rollup` and `book`.

stratum       what requests share whose times are compared
sums          what a stratum's requests add up to
observation   what one settled row says
matching      which controls each stratum is compared with
baseline      what requests would have taken, and how far that may be off
holdout       the estimate, where controls are enough; `missing` says how many requests it takes where not
modelled      a guess where nothing was drawn
verdict       whether it pays
lengths       an alarm, should speculation change the texts
cohorts       all of this for one group
rollup        the sums by hour and by day
book          the groups of a report
"""
