//! Consumers without a group. librdkafka assigns nothing to a consumer that has no `group.id`, so such a client gets
//! `NO_GROUP`. librdkafka asks for the coordinator of every group, also if the client never joins it. A cluster with an
//! authorizer refuses that to an account that has no right on the group. So the linker's `--wrap` puts a function in
//! front that finds no broker for this question.

/// The `group.id` of a client without a group.
pub const NO_GROUP: &str = "pelton: no group";

#[cfg(wraps)]
mod wrapped {
    use super::NO_GROUP;
    use crate::rd::sys;
    use std::ffi::{CStr, c_char, c_int, c_void};

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
        // SAFETY: a live client.
        if features & KNOWS_COORDINATORS != 0 && unsafe { is_without_group(client) } {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { __real_rd_kafka_broker_any_usable(client, millis, lock, features, reason) }
    }

    /// # Safety
    /// A live client.
    unsafe fn is_without_group(client: *mut sys::rd_kafka_t) -> bool {
        let mut group = [0 as c_char; NO_GROUP.len() + 1];
        let mut size = group.len();
        // SAFETY: a live client's options, which nothing changes; a buffer with its length, which librdkafka ends with a
        // zero.
        unsafe {
            let options = sys::rd_kafka_conf(client);
            let found =
                sys::rd_kafka_conf_get(options, c"group.id".as_ptr(), group.as_mut_ptr(), &mut size) as i32 == 0;
            found && size == group.len() && CStr::from_ptr(group.as_ptr()).to_bytes() == NO_GROUP.as_bytes()
        }
    }
}
