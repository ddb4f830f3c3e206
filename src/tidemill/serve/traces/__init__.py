"""Traces of a server: spans of OpenTelemetry. Nothing of OpenTelemetry's SDK is imported where traces are off."""
