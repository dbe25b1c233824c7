//! What a client may read of an access token: when it ends. Who signed it is the broker's affair.

use std::time::Duration;

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use zeroize::Zeroizing;

use crate::secret::Secret;

/// The end of a token in JWT form (RFC 7519), as time since 1970; `None` if it is no such token or
/// has no `exp`.
pub fn token_end(token: &Secret) -> Option<Duration> {
    #[derive(serde::Deserialize)]
    struct Claims {
        exp: f64,
    }
    let mut parts = token.expose().split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let claims = Zeroizing::new(DECODER.decode(claims).ok()?);
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    Duration::try_from_secs_f64(claims.exp).ok()
}

const DECODER: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[cfg(test)]
mod tests {
    use super::*;

    fn end(claims: &str) -> Option<Duration> {
        let claims = DECODER.encode(claims);
        token_end(&Secret::new(format!("e30.{claims}.c2lnbmVk")))
    }

    #[test]
    fn the_end_is_read_whatever_else_a_token_claims() {
        let claims = r#"{"sub":"bob","exp":4102444800,"scope":["a"],"iat":1.5}"#;
        assert_eq!(end(claims), Some(Duration::from_secs(4_102_444_800)));
        assert_eq!(end(r#"{"exp":1.5}"#), Some(Duration::from_millis(1_500)));
    }

    #[test]
    fn what_is_no_token_with_an_end_has_none() {
        for claims in [
            r#"{"exp":-1}"#,
            r#"{"exp":1e300}"#,
            r#"{"sub":"bob"}"#,
            "[]",
            "",
        ] {
            assert_eq!(end(claims), None, "{claims}");
        }
        for token in ["", "coin", "a.b", "e30.%%.c2ln"] {
            assert_eq!(token_end(&Secret::new(token)), None, "{token}");
        }
    }
}
