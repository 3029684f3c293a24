"""How fast one checkout of homefold is beside another.

`jobs` says what is run in a checkout, `probes` runs inside one, `ratios` compares, `command` is the command line.
Checkouts, their spelling of settings and the digits are those of `same_answers`.
"""
