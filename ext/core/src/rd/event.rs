//! `rd_kafka_event_t`: what a client's queues say.

use super::{PartitionList, Report, Reported, certificates, codes, ffi, opaque, sys, text};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Looking at the clock is most of what a message's time costs. The messages of a long event were produced one right
/// after the other, to one partition. So after the first ones, this many get the time of one of them.
const NEIGHBORS: usize = 8;

pub struct Event {
    pub(super) raw: *mut sys::rd_kafka_event_t,
}

/// What `Event::deliver_reports` handed out.
pub(crate) struct Reports {
    pub count: usize,
    /// Of payloads and keys.
    pub bytes: usize,
    /// A receiver panicked.
    pub panics: bool,
}

impl Event {
    pub(super) fn own(raw: *mut sys::rd_kafka_event_t) -> Option<Self> {
        (!raw.is_null()).then(|| Self { raw })
    }

    /// One of `RD_KAFKA_EVENT_*`.
    pub fn kind(&self) -> i32 {
        // SAFETY: a live event.
        unsafe { sys::rd_kafka_event_type(self.raw) }
    }

    /// The error code of an ERROR or REBALANCE event.
    pub fn error(&self) -> i32 {
        // SAFETY: a live event.
        unsafe { ffi::rd_kafka_event_error(self.raw) }
    }

    /// Whether the client can't be used any more (librdkafka has put the real code in place of `_FATAL` then).
    pub fn is_fatal(&self) -> bool {
        // SAFETY: a live event.
        unsafe { sys::rd_kafka_event_error_is_fatal(self.raw) != 0 }
    }

    pub fn error_text(&self) -> String {
        // SAFETY: a live event; the string belongs to it.
        certificates::explained(text(unsafe { sys::rd_kafka_event_error_string(self.raw) }))
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

    /// Hands each delivery report of a DR event to its owner. `seen` gets each report first, and returns whether a
    /// failure must be published. `times` gets how long delivered messages took, in microseconds, and how many did;
    /// with `timed`, each report has the time of its message, too. Returns the number of reports, and whether there was
    /// a panic. A panic costs no other message its report.
    ///
    /// `T` is the owner's type in the client's produce calls. `Client::produce` is the only source of opaques, and one
    /// client always uses one `T`: the producer's delivery.
    pub(crate) fn deliver_reports<T: Reported>(
        &self,
        mut times: Option<&mut Vec<(i64, u64)>>,
        timed: bool,
        seen: impl Fn(Report) -> bool,
    ) -> Reports {
        let (mut reported, mut bytes, panics) = (0, 0, Cell::new(false));
        let guarded = |call: &mut dyn FnMut()| {
            if catch_unwind(AssertUnwindSafe(call)).is_err() {
                panics.set(true);
            }
        };
        let seen = |report| {
            let mut must_report = true;
            guarded(&mut || must_report = seen(report));
            must_report
        };
        loop {
            // SAFETY: a live DR event; its messages live until it is destroyed.
            let message = unsafe { sys::rd_kafka_event_message_next(self.raw) };
            if message.is_null() {
                return Reports { count: reported, bytes, panics: panics.get() };
            }
            // SAFETY: as above; the error code is read as an integer, codes being an open set.
            let (word, report) = unsafe {
                let error = cause(std::ptr::addr_of!((*message).err).cast::<i32>().read());
                let micros = if timed { sys::rd_kafka_message_latency(message).max(0) } else { 0 };
                let report = Report { partition: (*message).partition, offset: (*message).offset, error, micros };
                bytes += (*message).len + (*message).key_len;
                ((*message)._private, report)
            };
            if let Some(times) = times.as_mut()
                && report.error == 0
            {
                match times.last_mut() {
                    Some((_, count)) if !is_timed(reported) => *count += 1,
                    // SAFETY: as above.
                    _ => times.push((unsafe { sys::rd_kafka_message_latency(message) }, 1)),
                }
            }
            // SAFETY: the opaque came from `opaque::pack` and its owner is held until its last report.
            guarded(&mut || unsafe { opaque::deliver::<T>(word, report, &seen) });
            reported += 1;
        }
    }
}

/// Is the time of this message of an event asked for? Otherwise it counts as its neighbor's.
fn is_timed(position: usize) -> bool {
    position < NEIGHBORS || position.is_multiple_of(NEIGHBORS)
}

/// librdkafka fails the messages of a removed partition as `_UNKNOWN_PARTITION`. Only those that were in flight then
/// get `_DESTROY`, its code for the end of a client. A producer's reports are all read before its client ends.
fn cause(code: i32) -> i32 {
    if code == codes::DESTROY { codes::UNKNOWN_PARTITION } else { code }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: owned, destroyed once.
        unsafe { sys::rd_kafka_event_destroy(self.raw) };
    }
}

// SAFETY: an event has no thread affinity.
unsafe impl Send for Event {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rd::{Client, ClientKind, Conf, Queue, Topic, hold};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// An owner of messages.
    struct SeenPositions {
        /// Those that were reported, a bit each.
        positions: AtomicU32,
        last: u32,
        /// The report of this one panics.
        trap: u32,
    }

    impl Reported for SeenPositions {
        fn report(&self, position: u32, _: Report, _: bool) -> bool {
            self.positions.fetch_or(1 << position, Ordering::SeqCst);
            assert_ne!(self.trap, position, "as asked for");
            position == self.last
        }
    }

    /// A single message, or a few, have their exact times; among many, the clock is not read for each.
    #[test]
    fn the_first_messages_of_an_event_are_timed_and_then_every_eighth() {
        let timed: Vec<_> = (0..32).filter(|position| is_timed(*position)).collect();
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 24], timed[..]);
    }

    #[test]
    fn messages_of_a_removed_partition_fail_with_one_code() {
        assert_eq!([codes::UNKNOWN_PARTITION, codes::UNKNOWN_PARTITION, 0, 3], {
            [codes::DESTROY, codes::UNKNOWN_PARTITION, 0, 3].map(cause)
        });
    }

    /// Has four messages purged. Returns the positions that were reported, the bytes, and whether there was a panic.
    fn purged(trap: u32, seen: impl Fn(usize)) -> (u32, usize, bool) {
        let mut conf = Conf::new();
        conf.set_events(sys::RD_KAFKA_EVENT_DR);
        let client = Client::new(ClientKind::Producer, conf).expect("a client");
        let queue = Queue::main(&client);
        let topic = Topic::new(&client, "t").expect("a topic");
        let owner = Arc::new(SeenPositions { positions: AtomicU32::new(0), last: 3, trap });
        hold(&owner);
        for position in 0..4 {
            client.produce(&topic, 0, Some(b"abc"), Some(b"k"), &owner, position).expect("accepted");
        }
        client.purge();
        let (count, mut bytes, mut panicked) = (Cell::new(0), 0, false);
        while count.get() < 4 {
            let (before, event) = (count.get(), queue.poll_wait(20_000).expect("reports"));
            let reports = event.deliver_reports::<SeenPositions>(None, false, |_| {
                count.set(count.get() + 1);
                seen(count.get());
                false
            });
            assert_eq!(count.get() - before, reports.count);
            bytes += reports.bytes;
            panicked |= reports.panics;
        }
        assert_eq!(1, Arc::strong_count(&owner));
        (owner.positions.load(Ordering::SeqCst), bytes, panicked)
    }

    #[test]
    fn a_panic_over_one_report_costs_no_other_message_its_own() {
        assert_eq!((0b1111, 16, true), purged(2, |_| ()), "of the message's owner");
        assert_eq!(
            (0b1111, 16, true),
            purged(u32::MAX, |report| assert_ne!(1, report, "as asked for")),
            "of the client's"
        );
    }

    #[test]
    fn reports_without_a_panic_count_as_none() {
        assert_eq!((0b1111, 16, false), purged(u32::MAX, |_| ()));
    }
}
