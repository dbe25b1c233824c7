//! PLAIN (RFC 4616): name and password in one message.

use bytes::Bytes;

use super::wiped;
use crate::secret::Secret;

/// The message.
pub(super) fn message(username: &str, password: &Secret) -> Result<Bytes, String> {
    if username.contains('\0') || password.expose().contains('\0') {
        return Err("PLAIN cannot carry a NUL in name or password".to_owned());
    }
    if username.is_empty() || password.expose().is_empty() {
        return Err("PLAIN needs a name and a password".to_owned());
    }
    // Of the right size at once: growing would leave a copy behind.
    let mut message = Vec::with_capacity(username.len() + password.expose().len() + 2);
    message.push(0);
    message.extend_from_slice(username.as_bytes());
    message.push(0);
    message.extend_from_slice(password.expose().as_bytes());
    Ok(wiped(message))
}
