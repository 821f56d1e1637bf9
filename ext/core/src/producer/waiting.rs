//! What producing threads wait for: room in the queue, or the end of all pending messages.

use super::Producer;
use crate::error::Error;
use crate::linger::{Linger, Wait};
use crate::rd::codes;
use crate::wait::{self, Outcome, Parker, Wake};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Producer {
    /// Reports so far: to be read before an attempt that may find the queue full.
    pub fn reports(&self) -> u64 {
        self.reported.load(Ordering::SeqCst)
    }

    /// Parks until a report came since `seen` (each makes room).
    pub fn wait_for_room(&self, seen: u64, parker: &Arc<Parker>, deadline: Option<Instant>) -> Outcome {
        let _no_linger = self.skip_linger();
        self.progress.wait(parker, deadline, || self.reports() != seen || self.closing.started())
    }

    /// The caller is about to wait for room. While the returned value lives, queued messages are sent at once, whatever
    /// `linger.ms` says.
    pub fn skip_linger(&self) -> Option<Wait> {
        self.linger.as_ref().map(Linger::wait)
    }

    /// A wait for room ended after this time.
    pub fn waited_for_room(&self, time: Duration) {
        self.queue_waits.waited(self.poller.events(), &self.name, time);
    }

    /// Starts sending everything at once, whatever `linger.ms` says, for at most `timeout`. Wait with `add_waiter` or
    /// `wait_flushed`.
    pub fn start_flush(self: &Arc<Self>, timeout: Duration) -> Result<(), Error> {
        self.check_origin()?;
        if self.closing.done() {
            return Err(Error::Closed);
        }
        if self.pending() > 0 {
            let client = self.with_client(Arc::clone)?;
            let flush = move || client.flush(wait::millis(timeout));
            std::thread::Builder::new().name("pelton.flush".into()).spawn(flush).map_err(no_thread)?;
        }
        Ok(())
    }

    /// Whether every message that was accepted so far has been reported, and its failure counted. This becomes true a
    /// moment after `pending` falls to 0.
    pub fn is_flushed(&self) -> bool {
        self.reported.load(Ordering::SeqCst) >= self.sent()
    }

    /// Parks until `is_flushed`.
    pub fn wait_flushed(&self, parker: &Arc<Parker>, deadline: Option<Instant>) -> Outcome {
        self.progress.wait(parker, deadline, || self.is_flushed())
    }

    /// The number of messages accepted so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    /// Whether that many messages have been reported, or all of them (`sent` may have counted one that librdkafka then
    /// refused).
    pub fn is_reported(&self, sent: u64) -> bool {
        self.reported.load(Ordering::SeqCst) >= sent || self.is_flushed()
    }

    pub fn add_waiter(&self, waiter: Arc<dyn Wake>) {
        self.progress.add(waiter);
    }

    pub fn remove_waiter(&self, waiter: &Arc<dyn Wake>) {
        self.progress.remove(waiter);
    }
}

fn no_thread(error: io::Error) -> Error {
    Error::from((codes::CRIT_SYS_RESOURCE, format!("cannot start a thread for the flush: {error}")))
}
