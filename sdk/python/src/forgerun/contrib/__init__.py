"""Thin helpers for web frameworks. Each needs its framework, which this package does not install."""
