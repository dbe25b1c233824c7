//! What is read from a certificate of our own: the day it ends.

/// The end of a certificate's validity in seconds since 1970; `None` if it cannot be found.
pub(super) fn not_after(certificate: &[u8]) -> Option<u64> {
    let (_, certificate, _) = element(certificate)?;
    let (_, mut rest, _) = element(certificate)?;
    let (tag, _, after) = element(rest)?;
    if tag == VERSION {
        rest = after;
    }
    // Serial number, signature algorithm and issuer come before the validity.
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    let (_, validity, _) = element(rest)?;
    let (_, _, second) = element(validity)?;
    let (tag, text, _) = element(second)?;
    time(tag, std::str::from_utf8(text).ok()?)
}

/// One DER element: its tag, its contents, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        let fits = (1..=4).contains(&digits.len());
        let length = digits
            .iter()
            .fold(0_usize, |sum, digit| sum << 8 | usize::from(*digit));
        (fits.then_some(length)?, rest)
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((tag, contents, rest))
}

fn time(tag: u8, text: &str) -> Option<u64> {
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            (
                if year < 50 {
                    2_000 + year
                } else {
                    1_900 + year
                },
                rest,
            )
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let part = |at: usize| rest.get(at..at + 2)?.parse::<i64>().ok();
    let days = days_of(year, part(0)?, part(2)?);
    let seconds = days * 86_400 + part(4)? * 3_600 + part(6)? * 60 + part(8)?;
    u64::try_from(seconds).ok()
}

/// Days since 1970 of a date in the Gregorian calendar.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is their last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// A moment as its date, for messages.
pub(super) fn date(unix_seconds: u64) -> String {
    let days = i64::try_from(unix_seconds / 86_400).unwrap_or(0) + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_agree_over_leap_years() {
        for (text, seconds) in [
            ("19700101000000Z", 0),
            ("20000229120000Z", 951_825_600),
            ("20261130180000Z", 1_796_061_600),
            ("21000301000000Z", 4_107_542_400),
        ] {
            assert_eq!(time(GENERALIZED_TIME, text), Some(seconds), "{text}");
            let digits: String = date(seconds).chars().filter(char::is_ascii_digit).collect();
            assert_eq!(digits, text[..8]);
        }
        assert_eq!(time(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(time(UTC_TIME, "500101"), None);
    }

    #[test]
    fn the_end_is_read_from_a_certificate_and_garbage_has_none() {
        let mut params = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2031, 5, 6);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let end = not_after(certificate.der()).unwrap();
        assert_eq!(date(end), "2031-05-06");
        for length in 0..certificate.der().len().min(200) {
            assert_eq!(not_after(&certificate.der()[..length]), None);
        }
    }
}
