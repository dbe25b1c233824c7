//! One list per section from which its struct, defaults, parser and key names follow.

use super::property::Property;

/// A group of properties.
pub(super) trait Section {
    /// The keys of the section, in the order of its fields.
    fn keys() -> &'static [&'static str]
    where
        Self: Sized;

    /// Sets `key`; `None` if the section has no such key, the phrase of what it accepts if the
    /// value is bad.
    fn set(&mut self, key: &str, text: &str) -> Option<Result<(), String>>;

    /// The value of `key` as text; `None` if the section has no such key.
    fn show(&self, key: &str) -> Option<String>;
}

/// Reads `text` into `field`.
pub(super) fn assign<T: Property>(field: &mut T, text: &str) -> Result<(), String> {
    *field = T::parse(text).ok_or_else(T::accepts)?;
    Ok(())
}

/// Declares a section: doc, name, then per field its doc, key, name, type and default.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $key:literal $field:ident: $ty:ty = $default:expr;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_doc])* #[doc = concat!("Key `", $key, "`.")] pub $field: $ty,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::config::section::Section for $name {
            fn keys() -> &'static [&'static str] {
                &[$($key),*]
            }

            fn set(&mut self, key: &str, text: &str) -> Option<Result<(), String>> {
                match key {
                    $($key => Some($crate::config::section::assign(&mut self.$field, text)),)*
                    _ => None,
                }
            }

            fn show(&self, key: &str) -> Option<String> {
                use $crate::config::property::Property;
                match key {
                    $($key => Some(self.$field.show()),)*
                    _ => None,
                }
            }
        }
    };
}

/// Makes an enum a property that is one of a few words.
macro_rules! words {
    ($name:ident { $($variant:ident = $word:literal $(or $alias:literal)*,)* }) => {
        impl $crate::config::property::Property for $name {
            fn accepts() -> String {
                concat!("one of", $(" `", $word, "`"),*).replace("` `", "`, `")
            }

            fn parse(text: &str) -> Option<Self> {
                match text {
                    $($word $(| $alias)* => Some(Self::$variant),)*
                    _ => None,
                }
            }

            fn show(&self) -> String {
                match self {
                    $(Self::$variant => $word.into(),)*
                }
            }
        }
    };
}

/// Declares an enum that is a property of a few words.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $word:literal $(or $alias:literal)*,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        $crate::config::section::words! { $name { $($variant = $word $(or $alias)*,)* } }
    };
}

pub(super) use {choice, section, words};

/// Milliseconds, for the tables of defaults.
pub(super) const fn ms(ms: u64) -> std::time::Duration {
    std::time::Duration::from_millis(ms)
}

/// A count that is never zero, for the tables of defaults; 0 stands for 1.
pub(super) const fn count(count: u32) -> std::num::NonZeroU32 {
    match std::num::NonZeroU32::new(count) {
        Some(count) => count,
        None => std::num::NonZeroU32::MIN,
    }
}
