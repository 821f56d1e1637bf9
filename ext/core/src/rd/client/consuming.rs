//! The calls that only a consumer makes.

use super::{Client, NO_ERROR, take_error};
use crate::rd::{PartitionList, Queue, codes, ffi, sys, text};
use std::ffi::CString;

impl Client {
    pub fn subscribe(&self, topics: &PartitionList) -> i32 {
        // SAFETY: live client and list (copied).
        unsafe { ffi::rd_kafka_subscribe(self.raw, topics.raw()) }
    }

    /// Leaves the group, once the partitions are given back.
    pub fn unsubscribe(&self) -> i32 {
        // SAFETY: a live client.
        unsafe { ffi::rd_kafka_unsubscribe(self.raw) }
    }

    /// The topics that are subscribed to.
    pub fn subscription(&self) -> Option<PartitionList> {
        let mut list = std::ptr::null_mut();
        // SAFETY: a live client; the list becomes ours.
        unsafe { ffi::rd_kafka_subscription(self.raw, &mut list) };
        PartitionList::own(list)
    }

    /// Replaces the assignment; `None` gives everything up.
    pub fn assign(&self, partitions: Option<&PartitionList>) -> i32 {
        // SAFETY: live client and list (copied).
        unsafe { ffi::rd_kafka_assign(self.raw, constant(partitions)) }
    }

    pub fn incremental_assign(&self, partitions: &PartitionList) -> Result<(), (i32, String)> {
        // SAFETY: live client and list (copied).
        check(unsafe { sys::rd_kafka_incremental_assign(self.raw, partitions.raw()) })
    }

    pub fn incremental_unassign(&self, partitions: &PartitionList) -> Result<(), (i32, String)> {
        // SAFETY: live client and list (copied).
        check(unsafe { sys::rd_kafka_incremental_unassign(self.raw, partitions.raw()) })
    }

    pub fn assignment(&self) -> Option<PartitionList> {
        let mut list = std::ptr::null_mut();
        // SAFETY: a live client; the list becomes ours.
        unsafe { ffi::rd_kafka_assignment(self.raw, &mut list) };
        PartitionList::own(list)
    }

    pub fn assignment_lost(&self) -> bool {
        // SAFETY: a live client.
        unsafe { sys::rd_kafka_assignment_lost(self.raw) != 0 }
    }

    /// `"EAGER"`, `"COOPERATIVE"` or `"NONE"`.
    pub fn rebalance_protocol(&self) -> String {
        // SAFETY: a live client; a static string.
        text(unsafe { sys::rd_kafka_rebalance_protocol(self.raw) })
    }

    /// Fills in the offset behind what was taken from the queues, ends of transactions included; −1001: nothing was.
    /// Does not wait.
    pub fn positions(&self, partitions: &PartitionList) -> i32 {
        // SAFETY: live client and list.
        unsafe { ffi::rd_kafka_position(self.raw, partitions.raw()) }
    }

    /// Stores offsets for the next commit; each entry of `offsets` gets its own result.
    pub fn store_offsets(&self, offsets: &PartitionList) -> i32 {
        // SAFETY: live client and list.
        unsafe { ffi::rd_kafka_offsets_store(self.raw, offsets.raw()) }
    }

    /// Fills in the committed offsets. Blocks up to `millis`.
    pub fn committed(&self, partitions: &PartitionList, millis: i32) -> i32 {
        // SAFETY: live client and list.
        unsafe { ffi::rd_kafka_committed(self.raw, partitions.raw(), millis) }
    }

    /// The lowest and the next offset of a partition; `Err` is the code. Blocks up to `millis`.
    pub fn watermarks(&self, topic: &str, partition: i32, millis: i32) -> Result<(i64, i64), i32> {
        let topic = CString::new(topic).map_err(|_| codes::INVALID_ARG)?;
        let (mut low, mut high) = (0, 0);
        // SAFETY: live client and string, places for both numbers.
        let code = unsafe {
            ffi::rd_kafka_query_watermark_offsets(self.raw, topic.as_ptr(), partition, &mut low, &mut high, millis)
        };
        if code == NO_ERROR { Ok((low, high)) } else { Err(code) }
    }

    /// The offset that the next message will have, according to the last fetch. `None`: there was no fetch. Does not
    /// wait.
    pub fn known_end(&self, topic: &str, partition: i32) -> Option<i64> {
        let topic = CString::new(topic).ok()?;
        let (mut low, mut high) = (-1, -1);
        // SAFETY: live client and string, places for both numbers.
        let code =
            unsafe { ffi::rd_kafka_get_watermark_offsets(self.raw, topic.as_ptr(), partition, &mut low, &mut high) };
        (code == NO_ERROR && high >= 0).then_some(high)
    }

    /// Replaces the times (in place of offsets) by offsets, −1 for a time after the last message. Blocks up to
    /// `millis`.
    pub fn offsets_for_times(&self, times: &PartitionList, millis: i32) -> i32 {
        // SAFETY: live client and list.
        unsafe { ffi::rd_kafka_offsets_for_times(self.raw, times.raw(), millis) }
    }

    /// Moves the positions. Blocks up to `millis`.
    pub fn seek(&self, partitions: &PartitionList, millis: i32) -> Result<(), (i32, String)> {
        // SAFETY: live client and list.
        check(unsafe { sys::rd_kafka_seek_partitions(self.raw, partitions.raw(), millis) })
    }

    /// Starts leaving the group; what remains (a revocation) comes through `queue`. Does not block.
    pub fn close_consumer(&self, queue: &Queue) -> Result<(), (i32, String)> {
        // SAFETY: a live client and queue.
        check(unsafe { sys::rd_kafka_consumer_close_queue(self.raw, queue.raw()) })
    }

    pub fn consumer_closed(&self) -> bool {
        // SAFETY: a live client.
        unsafe { sys::rd_kafka_consumer_closed(self.raw) != 0 }
    }
}

fn constant(list: Option<&PartitionList>) -> *const sys::rd_kafka_topic_partition_list_t {
    list.map_or(std::ptr::null(), |list| list.raw().cast_const())
}

fn check(error: *mut sys::rd_kafka_error_t) -> Result<(), (i32, String)> {
    if error.is_null() { Ok(()) } else { Err(take_error(error)) }
}
