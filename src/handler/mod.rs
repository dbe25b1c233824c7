//! Handlers, the messages they get and the outcomes they give.
