//! The transactional calls of a producer. Almost all of them block, and librdkafka allows one at a time.

use super::{Client, PartitionList, sys, text};
use std::ffi::{CString, c_char, c_int};

/// The error of a transactional call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionError {
    pub code: i32,
    pub reason: String,
    /// The client can't be used any more.
    pub fatal: bool,
    /// The same call may succeed when repeated.
    pub retriable: bool,
    /// The transaction must be aborted; the client is as good as before then.
    pub abortable: bool,
}

type RawError = *mut sys::rd_kafka_error_t;

// Declared here with integers: codes are an open set, and an enum of the bindings can't hold an unknown one.
unsafe extern "C" {
    fn rd_kafka_error_code(error: *const sys::rd_kafka_error_t) -> c_int;
    fn rd_kafka_test_fatal_error(client: *mut sys::rd_kafka_t, code: c_int, reason: *const c_char) -> c_int;
}

fn check(error: RawError) -> Result<(), TransactionError> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: a live error object, ours to destroy; its string is copied before.
    unsafe {
        let refusal = TransactionError {
            code: rd_kafka_error_code(error),
            reason: text(sys::rd_kafka_error_string(error)),
            fatal: sys::rd_kafka_error_is_fatal(error) != 0,
            retriable: sys::rd_kafka_error_is_retriable(error) != 0,
            abortable: sys::rd_kafka_error_txn_requires_abort(error) != 0,
        };
        sys::rd_kafka_error_destroy(error);
        Err(refusal)
    }
}

/// A consumer's membership in its group at present, for the offsets of a transaction.
pub struct GroupMetadata {
    raw: *mut sys::rd_kafka_consumer_group_metadata_t,
}

impl Drop for GroupMetadata {
    fn drop(&mut self) {
        // SAFETY: owned, destroyed once.
        unsafe { sys::rd_kafka_consumer_group_metadata_destroy(self.raw) };
    }
}

// SAFETY: plain memory.
unsafe impl Send for GroupMetadata {}

impl Client {
    /// Of a consumer with a group; blocks shortly (librdkafka's main thread answers).
    pub fn group_metadata(&self) -> Option<GroupMetadata> {
        // SAFETY: a live client; the copy becomes ours.
        let raw = unsafe { sys::rd_kafka_consumer_group_metadata(self.raw()) };
        (!raw.is_null()).then_some(GroupMetadata { raw })
    }

    /// Gets the producer's id and epoch, which fences every other producer of this transactional.id and aborts what it
    /// left open. Resumable: after a retriable error nothing but the same call may follow.
    pub fn init_transactions(&self, millis: i32) -> Result<(), TransactionError> {
        // SAFETY: a live client.
        check(unsafe { sys::rd_kafka_init_transactions(self.raw(), millis) })
    }

    /// Local; nothing is sent before the first message.
    pub fn begin_transaction(&self) -> Result<(), TransactionError> {
        // SAFETY: a live client.
        check(unsafe { sys::rd_kafka_begin_transaction(self.raw()) })
    }

    /// Makes the group's offsets a part of the transaction. Not resumable.
    pub fn send_offsets(
        &self,
        offsets: &PartitionList,
        group: &GroupMetadata,
        millis: i32,
    ) -> Result<(), TransactionError> {
        // SAFETY: live client, list and metadata, all of them copied.
        check(unsafe { sys::rd_kafka_send_offsets_to_transaction(self.raw(), offsets.raw(), group.raw, millis) })
    }

    /// Waits until every message is reported, then commits. Resumable.
    pub fn commit_transaction(&self, millis: i32) -> Result<(), TransactionError> {
        // SAFETY: a live client.
        check(unsafe { sys::rd_kafka_commit_transaction(self.raw(), millis) })
    }

    /// Fails every message that is not sent yet, then aborts. Resumable.
    pub fn abort_transaction(&self, millis: i32) -> Result<(), TransactionError> {
        // SAFETY: a live client.
        check(unsafe { sys::rd_kafka_abort_transaction(self.raw(), millis) })
    }

    /// For tests: the client fails fatally, as if a broker had said so.
    pub fn fail_for_good(&self, code: i32, reason: &str) -> i32 {
        let reason = CString::new(reason).unwrap_or_default();
        // SAFETY: live client and string (copied).
        unsafe { rd_kafka_test_fatal_error(self.raw(), code, reason.as_ptr()) }
    }
}
