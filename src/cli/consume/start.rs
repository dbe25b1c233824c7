//! Where reading starts (`consume -o`).

use std::str::FromStr;

use crate::cli::exit::Failure;
use crate::fleet::StartAt;
use crate::ids::Offset;

/// A starting point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start {
    /// The first record there is.
    Beginning,
    /// What comes from now on.
    End,
    /// Committed offsets only; without one the command fails.
    Stored,
    /// This offset of every partition, whatever is committed.
    Offset(Offset),
    /// The first record not older than this, in milliseconds since 1970, whatever is committed.
    Timestamp(i64),
}

impl Start {
    /// The starting point, if it overrides what is committed.
    pub(super) fn start_at(self) -> Option<StartAt> {
        match self {
            Self::Beginning | Self::End | Self::Stored => None,
            Self::Offset(offset) => Some(StartAt::Offset(offset)),
            Self::Timestamp(at_ms) => Some(StartAt::Timestamp(at_ms)),
        }
    }

    /// The value of `auto.offset.reset` that goes with it.
    pub(super) fn reset_policy(self) -> &'static str {
        match self {
            Self::Beginning | Self::Offset(_) | Self::Timestamp(_) => "earliest",
            Self::End => "latest",
            Self::Stored => "none",
        }
    }
}

impl Start {
    fn number(text: &str) -> Option<Self> {
        let parse = |digits: &str| digits.parse().ok().filter(|number: &i64| *number >= 0);
        match text.strip_prefix("s@") {
            Some(at_ms) => parse(at_ms).map(Self::Timestamp),
            None => parse(text).map(Offset).map(Self::Offset),
        }
    }
}

impl FromStr for Start {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        match text {
            "beginning" | "earliest" => Ok(Self::Beginning),
            "end" | "latest" => Ok(Self::End),
            "stored" => Ok(Self::Stored),
            other => Self::number(other).ok_or_else(|| {
                Failure::usage(format!(
                    "`{other}` is no starting point; there are beginning, end, stored, an offset, \
                     and s@ with milliseconds since 1970"
                ))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starting_points_go_by_both_names() {
        assert_eq!("earliest".parse(), Ok(Start::Beginning));
        assert_eq!("end".parse(), Ok(Start::End));
        assert_eq!("stored".parse::<Start>().unwrap().reset_policy(), "none");
        assert_eq!("17".parse(), Ok(Start::Offset(Offset(17))));
        assert_eq!("s@1700".parse(), Ok(Start::Timestamp(1_700)));
        for wrong in ["-5", "s@", "s@-1", "begin", ""] {
            let failure = wrong.parse::<Start>().unwrap_err();
            assert!(failure.message.contains("beginning"), "{wrong}");
        }
    }
}
