//! Which broker one partition reads from, and what every answer does to that decision.
