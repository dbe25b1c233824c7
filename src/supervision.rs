//! Restart intensity, backoff and escalation: the decisions of supervision, without an actor in sight.
