//! Where reading starts when the group has no committed offset (`consume -o`).

use std::str::FromStr;

use crate::cli::exit::Failure;

/// A starting point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start {
    /// The first record there is.
    Beginning,
    /// What comes from now on.
    End,
    /// Committed offsets only; without one the command fails.
    Stored,
}

impl Start {
    /// The value of `auto.offset.reset` that means the same.
    pub(super) fn reset_policy(self) -> &'static str {
        match self {
            Self::Beginning => "earliest",
            Self::End => "latest",
            Self::Stored => "none",
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
            other => Err(Failure::usage(format!(
                "`{other}` is no starting point; there are beginning, end and stored"
            ))),
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
        assert!(
            "17".parse::<Start>()
                .unwrap_err()
                .message
                .contains("beginning")
        );
    }
}
