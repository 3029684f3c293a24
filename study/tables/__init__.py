"""The tables of the study's pages, made from its records: one module for each group of questions."""
