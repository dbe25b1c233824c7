//! Text that must not be printed.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// A password, token or key. It has no `Display`, its `Debug` shows nothing of it, and it is wiped
/// when it is dropped (wire.md 11.3).
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself. Do not log what this returns.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// By what it is made of.
impl ZeroizeOnDrop for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Takes the same time wherever two secrets of one length differ.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

/// Compiles for values that are wiped when they are dropped.
#[cfg(test)]
pub(crate) fn is_wiped<T: ZeroizeOnDrop>(_: &T) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// wire.md 11.1 S6
    #[test]
    fn a_secret_is_wiped_on_drop() {
        let Secret(text) = Secret::new("hunter2");
        is_wiped(&text);
    }

    #[test]
    fn a_secret_does_not_show_itself() {
        let secret = Secret::new("hunter2");
        assert_eq!(
            format!("{:?} {:?}", secret, Some(&secret)),
            "[redacted] Some([redacted])"
        );
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn secrets_are_equal_by_their_text() {
        assert_eq!(Secret::new("a"), Secret::new("a"));
        assert_ne!(Secret::new("a"), Secret::new("b"));
        assert_ne!(Secret::new("a"), Secret::new("ab"));
    }
}
