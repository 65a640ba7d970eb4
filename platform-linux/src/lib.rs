//! The performing half of Spinwire: rdma_cm, verbs, hugepages and pinned cores on Linux.
#![deny(unsafe_code)]
