//! Sizes, and whose choice they are.

/// A size that we chose or that the user asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Ours to choose: lowered to what the device takes, and said once.
    Default(u32),
    /// The user's: above the limit is an error, never lowered.
    Asked(u32),
}

impl Size {
    /// The wish, whoever made it.
    pub fn value(self) -> u32 {
        match self {
            Size::Default(value) | Size::Asked(value) => value,
        }
    }
}
