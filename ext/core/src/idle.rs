//! Finds out that a client was idle for a while. The client asks it now and then. So it costs nothing while there is
//! work, and needs no thread and no timer.

use crate::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Default)]
pub(crate) struct Idle {
    /// Milliseconds; 0 for never.
    limit: AtomicU64,
    /// The count of uses at the last check, and since when it has not changed.
    seen: Mutex<Option<(u64, Instant)>>,
}

impl Idle {
    pub fn set(&self, limit: Option<Duration>) {
        let millis = limit.map_or(0, |limit| limit.as_millis().clamp(1, u64::MAX.into()) as u64);
        self.limit.store(millis, Ordering::Relaxed);
    }

    /// Whether the limit has passed since the count of uses changed or work was in progress. After a true, the same
    /// time passes before the next one.
    pub fn is_over(&self, uses: u64, busy: bool, now: Instant) -> bool {
        let limit = Duration::from_millis(self.limit.load(Ordering::Relaxed));
        let mut seen = lock(&self.seen);
        match *seen {
            Some((before, since)) if before == uses && !busy => {
                let over = !limit.is_zero() && now.saturating_duration_since(since) >= limit;
                if over {
                    *seen = Some((uses, now));
                }
                over
            }
            _ => {
                *seen = Some((uses, now));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64, start: Instant) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn client_is_idle_after_the_whole_time_without_use() {
        let (idle, start) = (Idle::default(), Instant::now());
        idle.set(Some(Duration::from_secs(30)));
        assert!(!idle.is_over(7, false, start));
        assert!(!idle.is_over(7, false, after(29, start)));
        assert!(idle.is_over(7, false, after(30, start)));
        assert!(!idle.is_over(7, false, after(31, start)), "once");
        assert!(idle.is_over(7, false, after(60, start)), "and again, if it had no effect");
    }

    #[test]
    fn each_use_and_each_pending_message_restarts_the_idle_time() {
        let (idle, start) = (Idle::default(), Instant::now());
        idle.set(Some(Duration::from_secs(30)));
        assert!(!idle.is_over(7, false, start));
        assert!(!idle.is_over(8, false, after(29, start)));
        assert!(!idle.is_over(8, true, after(58, start)));
        assert!(!idle.is_over(8, false, after(87, start)));
        assert!(idle.is_over(8, false, after(88, start)));
    }

    #[test]
    fn no_client_is_idle_without_a_limit() {
        let (idle, start) = (Idle::default(), Instant::now());
        assert!(!idle.is_over(0, false, start));
        assert!(!idle.is_over(0, false, after(100_000, start)));
    }
}
