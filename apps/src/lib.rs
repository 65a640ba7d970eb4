//! What the `spinwire` command is made of.
#![deny(unsafe_code)]
