"""The rules of the search, each written once: where it starts, how it steps, when it stops, what it minimises.

A new start, step rule or stopping rule is one new file in its folder, registered there; see `registry`.
"""
