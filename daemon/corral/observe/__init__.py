"""What Corral records and shows of its work: events, audit, alerts, metrics, traces, exports and retention."""
