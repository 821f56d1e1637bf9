//! Pelton's native core: everything of a Kafka client that needs no Ruby. `rd` owns librdkafka's handles. `poller` has
//! one event thread for all clients. Waits (`wait`) wake at once. Batches live in native memory (`chunk`), and native
//! threads decode them (`decode`, `format`). docs/internals/consuming.md shows a message's way.

#![deny(unsafe_code)]
#![warn(clippy::too_many_lines)] // more than 40: clippy.toml

pub mod decode;
#[allow(unsafe_code)]
pub mod rd;

pub mod admin;
pub mod budget;
pub mod call_counts;
pub mod chunk;
pub mod closing;
pub mod config;
pub mod delivery;
pub mod effective;
pub mod embedded;
pub mod error;
pub mod events;
pub mod fallbacks;
pub mod filter;
pub mod format;
mod free_list;
mod idle;
pub mod linger;
pub mod mailbox;
pub mod metadata;
pub mod partition;
pub mod poller;
pub mod producer;
mod queue_waits;
pub mod send_times;
pub mod subscription;
pub mod topic_partitions;
mod view;
pub mod wait;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, even if a holder panicked: under these locks, state only changes by whole assignments.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
