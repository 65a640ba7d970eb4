//! Enumerations that arrive from C as integers.

use core::fmt;

/// A code from C: one we have a name for, or the bare number.
///
/// Libraries and kernels newer than this program may send values it has never heard of. They are carried, never
/// turned into an enum they do not belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code<T> {
    /// A value this program has a name for.
    Known(T),
    /// Any other value.
    Unknown(u32),
}

impl<T: fmt::Display> fmt::Display for Code<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Code::Known(value) => value.fmt(f),
            Code::Unknown(raw) => write!(f, "unknown code {raw}"),
        }
    }
}

/// Declares an enumeration with its C values, a `decode` that never fails, and a text for each value.
macro_rules! c_codes {
    ($(#[$meta:meta])* $name:ident { $($value:literal $variant:ident $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $name {
            $(#[doc = $text] $variant = $value,)+
        }

        impl $name {
            /// Gives the name that belongs to `raw`, or `raw` itself.
            pub fn decode(raw: u32) -> $crate::sys::code::Code<Self> {
                match raw {
                    $($value => $crate::sys::code::Code::Known($name::$variant),)+
                    other => $crate::sys::code::Code::Unknown(other),
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(match self { $($name::$variant => $text,)+ })
            }
        }
    };
}
pub(crate) use c_codes;
