"""Decoded images on disk, mapped into memory by later runs."""
