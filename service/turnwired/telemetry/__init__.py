"""Spans and metrics, made by a subscriber of a run's events. The only package that may import opentelemetry."""
