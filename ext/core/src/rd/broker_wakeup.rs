//! How soon a broker's thread looks at a partition's messages again, of a producer. librdkafka asks
//! `rd_kafka_msgq_allow_wakeup_at`, which answers "now" while messages wait that are older than `linger.ms`. But if
//! five requests of an idempotent producer are unanswered for the partition, no further one may be sent. The thread
//! then takes a whole core until an answer comes: for a minute if the broker is frozen. Answers, new messages and a
//! socket that can be written to wake the thread anyway. So the linker's `--wrap` puts a function in front that says
//! "soon" instead.

use std::ffi::c_void;

/// Microseconds until the thread looks again, if nothing wakes it before.
const SOON: i64 = 1_000;

unsafe extern "C" {
    fn __real_rd_kafka_msgq_allow_wakeup_at(
        queue: *mut c_void,
        ready: *const c_void,
        next: *mut i64,
        now: i64,
        linger: i64,
        batch_messages: i32,
        batch_bytes: i64,
    ) -> bool;
}

/// # Safety
/// librdkafka's own arguments; `next` may be null. Times are in microseconds.
#[unsafe(export_name = "__wrap_rd_kafka_msgq_allow_wakeup_at")]
unsafe extern "C" fn allow_wakeup_at(
    queue: *mut c_void,
    ready: *const c_void,
    next: *mut i64,
    now: i64,
    linger: i64,
    batch_messages: i32,
    batch_bytes: i64,
) -> bool {
    // SAFETY: null, or a place of the caller that only this thread uses.
    let before = unsafe { next.as_ref() }.copied();
    // SAFETY: the caller's promise.
    let is_full =
        unsafe { __real_rd_kafka_msgq_allow_wakeup_at(queue, ready, next, now, linger, batch_messages, batch_bytes) };
    // SAFETY: as above.
    if let (Some(before), Some(next)) = (before, unsafe { next.as_mut() }) {
        *next = not_now(before, *next, now);
    }
    is_full
}

/// The time of the next look. `before`: the time without this partition; `next`: with it.
fn not_now(before: i64, next: i64, now: i64) -> i64 {
    if next > now { next } else { before.min(now + SOON) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_looks_again_after_a_millisecond_unless_messages_linger_or_something_else_is_due() {
        let now = 5_000_000;
        assert_eq!(not_now(now + 500_000, now, now), now + SOON, "messages wait");
        assert_eq!(not_now(now + 500_000, now + 300, now), now + 300, "they linger");
        assert_eq!(not_now(now + 200, now, now), now + 200, "something else is due earlier");
        assert_eq!(not_now(now - 7, now - 7, now), now - 7, "something else is due already");
    }
}
