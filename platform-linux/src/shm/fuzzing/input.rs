//! An input, taken apart from its beginning. What is not there is zero.

pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let (&first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        first
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// What [`u64`](Self::u64) would give.
    pub(super) fn peek(&self) -> u64 {
        Input(self.0).u64()
    }

    /// Up to `most` bytes, as many as the next byte says.
    pub(super) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let len = (self.byte() as usize).min(most).min(self.0.len());
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }
}
