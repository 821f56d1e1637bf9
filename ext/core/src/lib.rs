//! Pelton's native core: everything of a Kafka client that needs no Ruby. Owned librdkafka handles (`rd`), one event
//! thread for all clients (`poller`), waits that wake at once (`wait`), batches in native memory (`chunk`) and decoding
//! on native threads (`decode`, `format`). See docs/internals/consuming.md for the way a message takes.

pub mod decode;
pub mod rd;

#[forbid(unsafe_code)]
pub mod admin;
#[forbid(unsafe_code)]
pub mod budget;
#[forbid(unsafe_code)]
pub mod chunk;
#[forbid(unsafe_code)]
pub mod closing;
#[forbid(unsafe_code)]
pub mod config;
#[forbid(unsafe_code)]
pub mod delivery;
#[forbid(unsafe_code)]
pub mod effective;
#[forbid(unsafe_code)]
pub mod embedded;
#[forbid(unsafe_code)]
pub mod error;
#[forbid(unsafe_code)]
pub mod events;
#[forbid(unsafe_code)]
pub mod filter;
#[forbid(unsafe_code)]
pub mod format;
#[forbid(unsafe_code)]
mod free_list;
#[forbid(unsafe_code)]
mod idle;
#[forbid(unsafe_code)]
pub mod linger;
#[forbid(unsafe_code)]
pub mod mailbox;
#[forbid(unsafe_code)]
pub mod metadata;
#[forbid(unsafe_code)]
pub mod partition;
#[forbid(unsafe_code)]
pub mod places;
#[forbid(unsafe_code)]
pub mod poller;
#[forbid(unsafe_code)]
pub mod producer;
#[forbid(unsafe_code)]
mod queue_waits;
#[forbid(unsafe_code)]
pub mod subscription;
#[forbid(unsafe_code)]
mod view;
#[forbid(unsafe_code)]
pub mod wait;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, whatever a panicked holder left: state is only ever changed by whole assignments under these locks.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
