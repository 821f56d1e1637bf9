//! `rd_kafka_topic_partition_list_t`.

use super::{sys, text};
use std::ffi::CString;

/// One row of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub topic: String,
    pub partition: i32,
    /// −1001 where none is set.
    pub offset: i64,
    /// −1 where unknown.
    pub leader_epoch: i32,
    /// 0, or what librdkafka says of this partition.
    pub error: i32,
}

pub struct PartitionList {
    raw: *mut sys::rd_kafka_topic_partition_list_t,
}

impl PartitionList {
    pub fn new() -> Self {
        // SAFETY: no preconditions.
        Self { raw: unsafe { sys::rd_kafka_topic_partition_list_new(8) } }
    }

    pub(super) fn own(raw: *mut sys::rd_kafka_topic_partition_list_t) -> Option<Self> {
        (!raw.is_null()).then_some(Self { raw })
    }

    pub(super) fn copy_of(raw: *const sys::rd_kafka_topic_partition_list_t) -> Option<Self> {
        // SAFETY: a live list (or null, which is not copied).
        if raw.is_null() { None } else { Self::own(unsafe { sys::rd_kafka_topic_partition_list_copy(raw) }) }
    }

    /// Adds a row; partition −1 for a subscription. A topic with a NUL byte is refused.
    pub fn add(&mut self, topic: &str, partition: i32) -> Option<&mut Self> {
        let topic = CString::new(topic).ok()?;
        // SAFETY: live list and string (copied).
        unsafe { sys::rd_kafka_topic_partition_list_add(self.raw, topic.as_ptr(), partition) };
        Some(self)
    }

    /// Adds a row with an offset and the leader epoch it was read under (−1: none).
    pub fn add_offset(&mut self, topic: &str, partition: i32, offset: i64, leader_epoch: i32) -> Option<&mut Self> {
        let topic = CString::new(topic).ok()?;
        // SAFETY: live list and string; the row returned lives in the list.
        unsafe {
            let row = sys::rd_kafka_topic_partition_list_add(self.raw, topic.as_ptr(), partition);
            (*row).offset = offset;
            sys::rd_kafka_topic_partition_set_leader_epoch(row, leader_epoch);
        }
        Some(self)
    }

    pub fn entries(&self) -> Vec<Entry> {
        // SAFETY: `elems` holds `cnt` live rows; the error is read as an integer, codes being an open set.
        unsafe {
            let list = &*self.raw;
            (0..list.cnt as usize)
                .map(|index| {
                    let row = list.elems.add(index);
                    Entry {
                        topic: text((*row).topic),
                        partition: (*row).partition,
                        offset: (*row).offset,
                        leader_epoch: sys::rd_kafka_topic_partition_get_leader_epoch(row),
                        error: std::ptr::addr_of!((*row).err).cast::<i32>().read(),
                    }
                })
                .collect()
        }
    }

    pub(super) fn raw(&self) -> *mut sys::rd_kafka_topic_partition_list_t {
        self.raw
    }
}

impl Drop for PartitionList {
    fn drop(&mut self) {
        // SAFETY: owned, destroyed once.
        unsafe { sys::rd_kafka_topic_partition_list_destroy(self.raw) };
    }
}

// SAFETY: a list is plain memory.
unsafe impl Send for PartitionList {}
