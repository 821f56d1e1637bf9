//! While a transaction of a partition's former owner is open, Kafka does not tell the committed offset
//! (`UNSTABLE_OFFSET_COMMIT`), and librdkafka asks again. But if the assignment has changed meanwhile, librdkafka notes
//! the partition for later with the offset of that answer, "none". So it begins where `auto.offset.reset` says: at the
//! beginning, and results come twice, or at the end, and messages are lost. (Also in 2.15.1.) So the linker's `--wrap`
//! puts a function in front of the one that notes it. Then librdkafka asks for the committed offset later.

use super::{codes, sys};

unsafe extern "C" {
    fn __real_rd_kafka_topic_partition_list_add_copy(
        list: *mut sys::rd_kafka_topic_partition_list_t,
        partition: *const sys::rd_kafka_topic_partition_t,
    ) -> *mut sys::rd_kafka_topic_partition_t;
}

/// Appends a copy of the partition to the list.
///
/// # Safety
/// librdkafka's own arguments.
#[unsafe(export_name = "__wrap_rd_kafka_topic_partition_list_add_copy")]
unsafe extern "C" fn add_copy(
    list: *mut sys::rd_kafka_topic_partition_list_t,
    partition: *const sys::rd_kafka_topic_partition_t,
) -> *mut sys::rd_kafka_topic_partition_t {
    // SAFETY: the caller's promise; the copy is live.
    unsafe {
        let copy = __real_rd_kafka_topic_partition_list_add_copy(list, partition);
        let unstable = (*partition).err as i32 == codes::UNSTABLE_OFFSET_COMMIT;
        if unstable && (*partition).offset == i64::from(sys::RD_KAFKA_OFFSET_INVALID) {
            (*copy).offset = sys::RD_KAFKA_OFFSET_STORED.into();
        }
        copy
    }
}
