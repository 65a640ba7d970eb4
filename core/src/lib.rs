//! The deciding half of Spinwire: no operating system, no allocator, no clock.
#![no_std]
#![deny(unsafe_code)]
