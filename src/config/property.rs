//! How values are read from text and shown again.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::Endpoint;
use crate::ids::{GroupId, Rack};
use crate::secret::Secret;

/// A type that a property can hold.
pub(super) trait Property: Sized {
    /// What it accepts, as a phrase that follows "takes".
    fn accepts() -> String;

    /// Reads it from trimmed text; `None` if the text does not fit.
    fn parse(text: &str) -> Option<Self>;

    /// Writes it as it would be read.
    fn show(&self) -> String;
}

/// Implements [`Property`] for types whose `FromStr` and `Display` are the property form.
macro_rules! plain_property {
    ($($ty:ty => $accepts:literal;)*) => {
        $(impl Property for $ty {
            fn accepts() -> String {
                $accepts.into()
            }

            fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }

            fn show(&self) -> String {
                self.to_string()
            }
        })*
    };
}

plain_property! {
    u32 => "a whole number, 0 or more";
    u64 => "a whole number, 0 or more";
    i32 => "a whole number";
    NonZeroU32 => "a whole number, 1 or more";
    NonZeroUsize => "a whole number, 1 or more";
    bool => "`true` or `false`";
}

impl Property for Duration {
    fn accepts() -> String {
        "milliseconds as a whole number, 0 or more".into()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self::from_millis)
    }

    fn show(&self) -> String {
        self.as_millis().to_string()
    }
}

impl Property for String {
    fn accepts() -> String {
        "text that is not empty".into()
    }

    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl Property for Secret {
    fn accepts() -> String {
        "text that is not empty".into()
    }

    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self::new(text))
    }

    fn show(&self) -> String {
        "[redacted]".into()
    }
}

/// Implements [`Property`] for text identifiers.
macro_rules! text_property {
    ($($ty:ty),*) => {
        $(impl Property for $ty {
            fn accepts() -> String {
                String::accepts()
            }

            fn parse(text: &str) -> Option<Self> {
                (!text.is_empty()).then(|| text.into())
            }

            fn show(&self) -> String {
                self.to_string()
            }
        })*
    };
}

text_property!(GroupId, Rack);

impl<T: Property> Property for Option<T> {
    fn accepts() -> String {
        T::accepts()
    }

    fn parse(text: &str) -> Option<Self> {
        // An empty value is how a properties file unsets something.
        if text.is_empty() {
            Some(None)
        } else {
            T::parse(text).map(Some)
        }
    }

    fn show(&self) -> String {
        self.as_ref().map(Property::show).unwrap_or_default()
    }
}

impl<T: Property> Property for Vec<T> {
    fn accepts() -> String {
        format!("a list, separated by commas, of {}", T::accepts())
    }

    fn parse(text: &str) -> Option<Self> {
        text.split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(T::parse)
            .collect()
    }

    fn show(&self) -> String {
        self.iter()
            .map(Property::show)
            .collect::<Vec<_>>()
            .join(",")
    }
}

impl Property for Endpoint {
    fn accepts() -> String {
        "`host:port`".into()
    }

    fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port > 0)?;
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        // A bare IPv6 literal is ambiguous: its last group would be taken for the port.
        let host = bare.or_else(|| (!host.contains(':')).then_some(host))?;
        let clean = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/');
        clean.then(|| Self::new(Arc::<str>::from(host), port))
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// A share of a whole, from 0 to 1.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Share(pub f64);

impl Property for Share {
    fn accepts() -> String {
        "a number from 0 to 1".into()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse()
            .ok()
            .filter(|share| (0.0..=1.0).contains(share))
            .map(Self)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// Size of a socket's buffer, in bytes; `None` leaves it to the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SocketBuffer(pub Option<u32>);

impl Property for SocketBuffer {
    fn accepts() -> String {
        "a number of bytes above 0, or -1 for the system's choice".into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "-1" => Some(Self(None)),
            text => text
                .parse()
                .ok()
                .filter(|size| *size > 0)
                .map(|size| Self(Some(size))),
        }
    }

    fn show(&self) -> String {
        self.0.map_or_else(|| "-1".into(), |size| size.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> Option<String> {
        Endpoint::parse(text).map(|endpoint| format!("{} {}", endpoint.host, endpoint.port))
    }

    #[test]
    fn endpoints_take_names_addresses_and_bracketed_ipv6() {
        assert_eq!(endpoint("kafka-1:9092").as_deref(), Some("kafka-1 9092"));
        assert_eq!(endpoint("[::1]:9092").as_deref(), Some("::1 9092"));
        assert_eq!(endpoint("::1:9092"), None);
        for bad in [
            "kafka-1",
            "kafka-1:",
            ":9092",
            "kafka-1:0",
            "kafka-1:70000",
            "http://a:80",
        ] {
            assert_eq!(endpoint(bad), None, "{bad}");
        }
    }

    #[test]
    fn lists_skip_empty_parts_and_fail_as_a_whole() {
        let list = Vec::<Endpoint>::parse(" a:1 ,, b:2,").unwrap();
        assert_eq!(list.show(), "a:1,b:2");
        assert_eq!(Vec::<Endpoint>::parse("a:1,b"), None);
    }

    #[test]
    fn an_empty_value_unsets_an_optional_property() {
        assert_eq!(Option::<Rack>::parse(""), Some(None));
        assert_eq!(Option::<Rack>::parse("a"), Some(Some("a".into())));
        assert_eq!(Option::<NonZeroU32>::parse("0"), None);
    }

    #[test]
    fn a_share_refuses_what_is_no_part_of_a_whole() {
        assert_eq!(Share::parse("0.25"), Some(Share(0.25)));
        assert_eq!(Share::parse("1.5"), None);
        for (text, size) in [("-1", None), ("65536", Some(65_536))] {
            let buffer = SocketBuffer(size);
            assert_eq!(SocketBuffer::parse(text), Some(buffer));
            assert_eq!(buffer.show(), text);
        }
        assert_eq!(["0", "-2", "large"].map(SocketBuffer::parse), [None; 3]);
        assert_eq!(Share::parse("NaN"), None);
    }
}
