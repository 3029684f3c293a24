"""Whether two checkouts of homefold give the same answers.

`cases` says what is trained and answered, `checkout` runs it, `probes` runs inside a checkout, `spelling` knows how two
checkouts may call the same thing, `data` is what both are given, `comparing` compares, `command` is the command line.
"""
