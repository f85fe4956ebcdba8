"""Traces of tasks, sent to an OpenTelemetry collector."""
