//! Owned handles over librdkafka. The only room of the core where `unsafe` is allowed: everything here has a safe face,
//! so that the floors above it can forbid `unsafe` altogether.

mod admin;
#[cfg(wraps)]
mod broker_wakeup;
mod certificates;
mod client;
mod clock;
pub mod codes;
mod commit;
mod conf;
pub mod decompression;
mod event;
pub mod event_types;
pub mod fetching;
mod ffi;
#[cfg(wraps)]
mod former_member;
mod headers;
#[cfg(wraps)]
mod leader_query;
mod main_thread;
mod message;
mod mock;
mod opaque;
mod openssl;
#[cfg(wraps)]
mod openssl_locks;
mod partitioner;
mod process;
mod queue;
#[cfg(wraps)]
mod rebalance_pause;
mod resolver;
mod topic;
mod tpl;
mod transaction;
#[cfg(wraps)]
mod unanswered_heartbeat;
#[cfg(wraps)]
mod unanswered_request;
#[cfg(wraps)]
mod unstable_offset;
mod wakeup;
mod without_group;

pub use admin::{Acl, Answer, NewTopic, Request, Resource, TopicOffsets};
pub use client::{Client, ClientKind, library_features, library_is_shared, library_version};
pub use commit::Commit;
pub use conf::{Conf, Property};
pub use event::Event;
pub(crate) use event::Reports;
pub use headers::Headers;
pub use message::{Fetched, FetchedMessage};
pub use mock::MockCluster;
pub use opaque::{MAX_POSITIONS, Report, Reported, seal, unseal};
pub(crate) use opaque::{hold, report_unsent};
pub use partitioner::Partitioner;
pub use process::{Origin, PerProcess, generation};
pub use queue::Queue;
pub use topic::Topic;
pub use tpl::{Entry, PartitionList};
pub use transaction::{GroupMetadata, TransactionError};
pub use wakeup::{Token, Wakeup};
pub(crate) use without_group::NO_GROUP;

use rdkafka_sys as sys;
use std::ffi::{CStr, c_char};

/// Copies a C string that librdkafka owns; null gives an empty string.
fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: librdkafka's strings are NUL-terminated and live at least as long as the call that gave them to us.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// The symbolic name of an error code, as librdkafka spells it: `"_TIMED_OUT"`, `"UNKNOWN_TOPIC_OR_PART"`.
pub fn error_name(code: i32) -> String {
    // SAFETY: `lookup` lends a live entry.
    lookup(code, |desc| unsafe { (*desc).name })
}

/// The one-line description of an error code.
pub fn error_text(code: i32) -> String {
    // SAFETY: as above.
    lookup(code, |desc| unsafe { (*desc).desc })
}

/// librdkafka's own table of codes, so that no unknown number becomes a Rust enum.
fn lookup(code: i32, field: fn(*const sys::rd_kafka_err_desc) -> *const c_char) -> String {
    let (mut table, mut count) = (std::ptr::null(), 0usize);
    // SAFETY: the call fills in a static array and its length; each entry is valid for the whole process. The `code`
    // field is read as a plain integer.
    unsafe {
        sys::rd_kafka_get_err_descs(&mut table, &mut count);
        let found = (0..count)
            .map(|i| table.add(i))
            .find(|desc| std::ptr::addr_of!((**desc).code).cast::<i32>().read() == code && !field(*desc).is_null());
        found.map_or_else(|| format!("error {code}"), |desc| text(field(desc)))
    }
}
