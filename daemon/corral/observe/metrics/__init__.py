"""Figures of what finished work came to."""
