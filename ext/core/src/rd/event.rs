//! `rd_kafka_event_t`: what a client's queues say.

use super::{PartitionList, Report, Reported, opaque, sys, text};

pub struct Event {
    raw: *mut sys::rd_kafka_event_t,
}

impl Event {
    pub(super) fn own(raw: *mut sys::rd_kafka_event_t) -> Option<Self> {
        (!raw.is_null()).then_some(Self { raw })
    }

    /// One of `RD_KAFKA_EVENT_*`.
    pub fn kind(&self) -> i32 {
        // SAFETY: a live event.
        unsafe { sys::rd_kafka_event_type(self.raw) }
    }

    /// The error code of an ERROR or REBALANCE event.
    pub fn error(&self) -> i32 {
        // SAFETY: a live event.
        unsafe { sys::rd_kafka_event_error(self.raw) as i32 }
    }

    /// Whether the client can't be used any more (librdkafka has put the real code in place of `_FATAL` then).
    pub fn is_fatal(&self) -> bool {
        // SAFETY: a live event.
        unsafe { sys::rd_kafka_event_error_is_fatal(self.raw) != 0 }
    }

    pub fn error_text(&self) -> String {
        // SAFETY: a live event; the string belongs to it.
        text(unsafe { sys::rd_kafka_event_error_string(self.raw) })
    }

    /// (facility, message, syslog level 0–7) of a LOG event.
    pub fn log(&self) -> Option<(String, String, i32)> {
        let (mut facility, mut message, mut level) = (std::ptr::null(), std::ptr::null(), 0);
        // SAFETY: a live event and places for its three parts.
        let result = unsafe { sys::rd_kafka_event_log(self.raw, &mut facility, &mut message, &mut level) };
        (result == 0).then(|| (text(facility), text(message), level))
    }

    /// The JSON of a STATS event.
    pub fn statistics(&self) -> String {
        // SAFETY: a live event; the string belongs to it.
        text(unsafe { sys::rd_kafka_event_stats(self.raw) })
    }

    /// The partitions of a REBALANCE or OFFSET_COMMIT event.
    pub fn partitions(&self) -> Option<PartitionList> {
        // SAFETY: a live event, which owns the list: it is copied.
        PartitionList::copy_of(unsafe { sys::rd_kafka_event_topic_partition_list(self.raw) })
    }

    /// The topic and partition of an ERROR event that is about one.
    pub fn partition(&self) -> Option<(String, i32)> {
        // SAFETY: a live event; the partition object is ours to destroy.
        unsafe {
            let raw = sys::rd_kafka_event_topic_partition(self.raw);
            let found = (!raw.is_null()).then(|| (text((*raw).topic), (*raw).partition));
            if !raw.is_null() {
                sys::rd_kafka_topic_partition_destroy(raw);
            }
            found.filter(|(topic, _)| !topic.is_empty())
        }
    }

    /// Hands each delivery report of a DR event to its owner; `failed` sees those of failures first. Returns how many.
    ///
    /// `T` is the owner's type that the client's produce calls were given (`Client::produce` is the only source of
    /// opaques, and one client is only ever used with one `T`: the producer's delivery).
    pub(crate) fn deliver_reports<T: Reported>(&self, failed: impl Fn(&T, u32, Report)) -> usize {
        let mut reported = 0;
        loop {
            // SAFETY: a live DR event; its messages live until it is destroyed.
            let message = unsafe { sys::rd_kafka_event_message_next(self.raw) };
            if message.is_null() {
                return reported;
            }
            // SAFETY: as above; the error code is read as an integer, codes being an open set. The opaque came from
            // `opaque::pack` and its owner is held until its last report.
            unsafe {
                let report = Report {
                    partition: (*message).partition,
                    offset: (*message).offset,
                    error: std::ptr::addr_of!((*message).err).cast::<i32>().read(),
                };
                opaque::deliver::<T>((*message)._private, report, &failed);
            }
            reported += 1;
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: owned, destroyed once.
        unsafe { sys::rd_kafka_event_destroy(self.raw) };
    }
}

// SAFETY: an event has no thread affinity.
unsafe impl Send for Event {}
