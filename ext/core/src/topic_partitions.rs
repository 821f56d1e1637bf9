//! Lists of partitions and offsets: ours to librdkafka's and back.

use crate::error::Error;
use crate::rd::PartitionList;
use std::sync::Arc;

pub type TopicPartition = (Arc<str>, i32);

pub fn bad_topic(topic: &str) -> Error {
    Error::Invalid { what: "topic", value: topic.into(), allowed: "a name without NUL bytes" }
}

pub fn names(list: &PartitionList) -> Vec<TopicPartition> {
    list.entries().into_iter().map(|entry| (entry.topic.into(), entry.partition)).collect()
}

pub fn plain(partitions: &[(&str, i32)]) -> Result<PartitionList, Error> {
    PartitionList::plain(partitions.iter().copied()).map_err(bad_topic)
}

pub fn offsets<'a>(rows: impl IntoIterator<Item = (&'a str, i32, i64, i32)>) -> Result<PartitionList, Error> {
    PartitionList::with_offsets(rows).map_err(bad_topic)
}
