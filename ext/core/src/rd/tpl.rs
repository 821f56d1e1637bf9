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
    /// The metadata that was committed with the offset; mostly empty.
    pub metadata: Vec<u8>,
    /// 0, or what librdkafka says of this partition.
    pub error: i32,
}

pub struct PartitionList {
    raw: *mut sys::rd_kafka_topic_partition_list_t,
}

impl Default for PartitionList {
    fn default() -> Self {
        Self::new()
    }
}

impl PartitionList {
    pub fn new() -> Self {
        // SAFETY: no preconditions.
        Self { raw: unsafe { sys::rd_kafka_topic_partition_list_new(8) } }
    }

    pub(super) fn own(raw: *mut sys::rd_kafka_topic_partition_list_t) -> Option<Self> {
        (!raw.is_null()).then(|| Self { raw })
    }

    pub(super) fn copy_of(raw: *const sys::rd_kafka_topic_partition_list_t) -> Option<Self> {
        // SAFETY: a live list (or null, which is not copied).
        if raw.is_null() { None } else { Self::own(unsafe { sys::rd_kafka_topic_partition_list_copy(raw) }) }
    }

    /// Rows of topic and partition (−1 for a subscription); `Err` is the topic that can't be one (it has a NUL byte).
    pub fn plain<'a>(rows: impl IntoIterator<Item = (&'a str, i32)>) -> Result<Self, &'a str> {
        const INVALID: i64 = -1001;
        Self::with_offsets(rows.into_iter().map(|(topic, partition)| (topic, partition, INVALID, -1)))
    }

    /// Rows of topic, partition, offset and the leader epoch that the offset was read under (−1: unknown).
    pub fn with_offsets<'a>(rows: impl IntoIterator<Item = (&'a str, i32, i64, i32)>) -> Result<Self, &'a str> {
        let list = Self::new();
        for (topic, partition, offset, leader_epoch) in rows {
            let name = CString::new(topic).map_err(|_| topic)?;
            // SAFETY: live list and string (copied); the row returned lives in the list.
            unsafe {
                let row = sys::rd_kafka_topic_partition_list_add(list.raw, name.as_ptr(), partition);
                (*row).offset = offset;
                sys::rd_kafka_topic_partition_set_leader_epoch(row, leader_epoch);
            }
        }
        Ok(list)
    }

    /// The metadata to commit with the offset of that row.
    pub fn set_metadata(&mut self, row: usize, metadata: &[u8]) {
        // SAFETY: a live list; the memory is librdkafka's own kind, which destroys it with the row.
        unsafe {
            let list = &*self.raw;
            assert!(row < list.cnt as usize, "no such row");
            let row = &mut *list.elems.add(row);
            let size = metadata.len();
            let copy = sys::rd_kafka_mem_malloc(std::ptr::null_mut(), size.max(1));
            std::ptr::copy_nonoverlapping(metadata.as_ptr(), copy.cast(), size);
            sys::rd_kafka_mem_free(std::ptr::null_mut(), row.metadata);
            (row.metadata, row.metadata_size) = (copy, size);
        }
    }

    pub fn entries(&self) -> Vec<Entry> {
        // SAFETY: `elems` holds `cnt` live rows; the error is read as an integer, codes being an open set.
        unsafe {
            let list = &*self.raw;
            (0..list.cnt as usize)
                .map(|index| {
                    let row = list.elems.add(index);
                    let metadata = match (*row).metadata {
                        bytes if bytes.is_null() => Vec::new(),
                        bytes => std::slice::from_raw_parts(bytes.cast(), (*row).metadata_size).to_vec(),
                    };
                    Entry {
                        metadata,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `then_some` would create one anyway, and freeing it would crash: a client that ends returns null here.
    #[test]
    fn nothing_is_no_list() {
        assert!(PartitionList::own(std::ptr::null_mut()).is_none());
        assert!(PartitionList::copy_of(std::ptr::null()).is_none());
    }

    #[test]
    fn a_list_gives_back_what_was_put_in_it() {
        let mut list = PartitionList::with_offsets([("a", 0, 5, 3), ("b", 7, 6, -1)]).expect("a list");
        let long = vec![0xff; 1 << 20];
        let metadata: [(&[u8], &[u8]); 3] = [(b"x", b""), (b"", &long), (&long, b"y\0z")];
        for (first, second) in metadata {
            list.set_metadata(0, first);
            list.set_metadata(1, second);
            let row = |topic: &str, partition, offset, leader_epoch, metadata: &[u8]| Entry {
                topic: topic.into(),
                partition,
                offset,
                leader_epoch,
                metadata: metadata.into(),
                error: 0,
            };
            assert!(vec![row("a", 0, 5, 3, first), row("b", 7, 6, -1, second)] == list.entries());
        }
        let plain = PartitionList::plain([("a", 2)]).expect("a list").entries();
        assert_eq!((2, -1001, -1), (plain[0].partition, plain[0].offset, plain[0].leader_epoch));
        assert_eq!(Some("a\0b"), PartitionList::plain([("a\0b", 0)]).err());
    }
}
