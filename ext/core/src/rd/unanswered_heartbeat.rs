//! What a member of the protocol `consumer` (KIP-848) does after a heartbeat that was not answered in time. The answer
//! may have had its new assignment. Kafka sends that again only for a heartbeat with all of the member's fields, which
//! the protocol asks for after any failure. librdkafka sends such a heartbeat after a lost connection, but not after a
//! timeout. The member then keeps partitions that it should give back, and others wait for them forever. So the
//! linker's `--wrap` puts a function in front of the request, whose handler takes a timeout for a lost connection.

use super::codes::{TIMED_OUT, TIMED_OUT_QUEUE, TRANSPORT};
use std::ffi::{c_int, c_void};
use std::mem::transmute;

/// librdkafka's `rd_kafka_resp_cb_t`.
pub(super) type Handler = unsafe extern "C" fn(
    client: *mut c_void,
    broker: *mut c_void,
    error: c_int,
    answer: *mut c_void,
    request: *mut c_void,
    opaque: *mut c_void,
);

/// librdkafka's `rd_kafka_replyq_t`.
#[repr(C)]
pub(super) struct ReplyQueue {
    pub(super) queue: *mut c_void,
    pub(super) version: i32,
}

unsafe extern "C" {
    fn __real_rd_kafka_ConsumerGroupHeartbeatRequest(
        broker: *mut c_void,
        group: *const c_void,
        member: *const c_void,
        epoch: i32,
        instance: *const c_void,
        rack: *const c_void,
        rebalance_timeout: i32,
        topics: *const c_void,
        pattern: *mut c_void,
        assignor: *const c_void,
        assignment: *const c_void,
        replies: ReplyQueue,
        handler: Handler,
        opaque: *mut c_void,
    );
}

/// Sends a heartbeat. The one with which a member leaves has an opaque, and an epoch below zero.
///
/// # Safety
/// librdkafka's own arguments.
#[unsafe(export_name = "__wrap_rd_kafka_ConsumerGroupHeartbeatRequest")]
unsafe extern "C" fn send(
    broker: *mut c_void,
    group: *const c_void,
    member: *const c_void,
    epoch: i32,
    instance: *const c_void,
    rack: *const c_void,
    rebalance_timeout: i32,
    topics: *const c_void,
    pattern: *mut c_void,
    assignor: *const c_void,
    assignment: *const c_void,
    replies: ReplyQueue,
    handler: Handler,
    opaque: *mut c_void,
) {
    let (handler, opaque) =
        if epoch >= 0 && opaque.is_null() { (handled as Handler, handler as *mut c_void) } else { (handler, opaque) };
    // SAFETY: the caller's promise; `handled` gets the opaque that it expects.
    unsafe {
        __real_rd_kafka_ConsumerGroupHeartbeatRequest(
            broker,
            group,
            member,
            epoch,
            instance,
            rack,
            rebalance_timeout,
            topics,
            pattern,
            assignor,
            assignment,
            replies,
            handler,
            opaque,
        );
    }
}

/// # Safety
/// librdkafka's own arguments; `own` is its handler, which expects no opaque.
unsafe extern "C" fn handled(
    client: *mut c_void,
    broker: *mut c_void,
    error: c_int,
    answer: *mut c_void,
    request: *mut c_void,
    own: *mut c_void,
) {
    // SAFETY: `send` made the pointer of a handler.
    let own = unsafe { transmute::<*mut c_void, Handler>(own) };
    // SAFETY: the caller's promise.
    unsafe { own(client, broker, taken_for(error), answer, request, std::ptr::null_mut()) };
}

fn taken_for(error: c_int) -> c_int {
    if [TIMED_OUT, TIMED_OUT_QUEUE].contains(&error) { TRANSPORT } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rd::codes::NOT_COORDINATOR;

    #[test]
    fn only_a_heartbeat_without_an_answer_is_taken_for_a_lost_connection() {
        assert_eq!([TRANSPORT; 3], [TIMED_OUT, TIMED_OUT_QUEUE, TRANSPORT].map(taken_for));
        assert_eq!([0, NOT_COORDINATOR], [0, NOT_COORDINATOR].map(taken_for));
    }
}
