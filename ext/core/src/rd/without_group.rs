//! Consumers without a group. librdkafka assigns nothing to a consumer that has no `group.id`, so such a client gets
//! `NO_GROUP`. librdkafka asks for the coordinator of every group, also if the client never joins it. A cluster with an
//! authorizer refuses that to an account that has no right on the group. So the linker's `--wrap` puts a function in
//! front that finds no broker for this question.

/// The `group.id` of a client without a group.
pub const NO_GROUP: &str = "pelton: no group";

#[cfg(wraps)]
mod wrapped {
    use super::NO_GROUP;
    use crate::rd::{conf, sys};
    use std::ffi::{c_char, c_int, c_void};

    /// librdkafka's `RD_KAFKA_FEATURE_BROKER_GROUP_COORD`: the broker knows coordinators. Only these questions need it.
    const KNOWS_COORDINATORS: c_int = 0x40;

    unsafe extern "C" {
        fn __real_rd_kafka_broker_any_usable(
            client: *mut sys::rd_kafka_t,
            millis: c_int,
            lock: c_int,
            features: c_int,
            reason: *const c_char,
        ) -> *mut c_void;
    }

    /// A connected broker with these features, or null.
    ///
    /// # Safety
    /// librdkafka's own arguments.
    #[unsafe(export_name = "__wrap_rd_kafka_broker_any_usable")]
    unsafe extern "C" fn any_usable(
        client: *mut sys::rd_kafka_t,
        millis: c_int,
        lock: c_int,
        features: c_int,
        reason: *const c_char,
    ) -> *mut c_void {
        // SAFETY: a live client, whose options nothing changes.
        let group = || unsafe { conf::value(sys::rd_kafka_conf(client), c"group.id") };
        if features & KNOWS_COORDINATORS != 0 && group().as_deref() == Some(NO_GROUP) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { __real_rd_kafka_broker_any_usable(client, millis, lock, features, reason) }
    }
}
