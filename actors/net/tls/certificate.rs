//! Days in the life of a certificate.

use time::OffsetDateTime;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// The end of a certificate's validity in seconds since 1970; `None` if it cannot be read.
pub(super) fn not_after(certificate: &[u8]) -> Option<i64> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

/// A moment as its date, for messages.
pub(super) fn date(unix_seconds: u64) -> String {
    let seconds = i64::try_from(unix_seconds).ok();
    let moment = seconds.and_then(|it| OffsetDateTime::from_unix_timestamp(it).ok());
    moment.map_or_else(
        || format!("{unix_seconds} s after 1970"),
        |moment| moment.date().to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_as_its_date_and_one_beyond_all_calendars_in_seconds() {
        for (seconds, text) in [
            (0, "1970-01-01"),
            (951_825_600, "2000-02-29"),
            (1_796_061_600, "2026-11-30"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(date(seconds), text);
        }
        assert!(date(u64::MAX).ends_with("s after 1970"));
    }

    #[test]
    fn the_end_is_read_from_a_certificate_and_garbage_has_none() {
        let mut params = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2031, 5, 6);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let end = not_after(certificate.der()).unwrap();
        assert_eq!(date(u64::try_from(end).unwrap()), "2031-05-06");
        for length in 0..certificate.der().len().min(200) {
            assert_eq!(not_after(&certificate.der()[..length]), None);
        }
    }
}
