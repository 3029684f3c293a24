"""The rules of the search, each written once: where it starts, how it steps, when it stops, what it minimises.

A new step rule or stopping rule is one class in its file, registered there by its name.
"""
