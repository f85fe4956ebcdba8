"""Sending the traces of tasks to an OpenTelemetry collector."""
