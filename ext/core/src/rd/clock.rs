//! One reading of the monotonic clock for each produced message. librdkafka reads it three times on a message's way
//! into its queue: for the message's timeout, for the partitioner and for the queue. A reading takes 20 to 40 ns, as
//! long as the copy of a small message. So the linker's `--wrap` puts a function in front of libc's `clock_gettime`:
//! within `once`, a thread gets the time of its first reading again.

#[cfg(wraps)]
use std::cell::Cell;
#[cfg(wraps)]
use std::ffi::c_int;

#[cfg(wraps)]
thread_local! {
    static READING: Cell<ClockReading> = const { Cell::new(ClockReading::Each) };
}

#[cfg(wraps)]
#[derive(Clone, Copy)]
enum ClockReading {
    /// Not within `once`.
    Each,
    /// Within it, before the first reading.
    First,
    Again(libc::timespec),
}

#[cfg(wraps)]
unsafe extern "C" {
    fn __real_clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int;
}

/// Calls librdkafka, for which this thread's monotonic clock stands still meanwhile. So `call` must not wait for a
/// time.
pub(super) fn once<R>(call: impl FnOnce() -> R) -> R {
    #[cfg(wraps)]
    READING.set(ClockReading::First);
    let result = call();
    #[cfg(wraps)]
    READING.set(ClockReading::Each);
    result
}

/// # Safety
/// As of libc's function: `time` is a place to write to.
#[cfg(wraps)]
#[unsafe(export_name = "__wrap_clock_gettime")]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    let reading = if clock == libc::CLOCK_MONOTONIC { READING.get() } else { ClockReading::Each };
    // SAFETY: the caller's promise.
    unsafe {
        if let ClockReading::Again(first) = reading {
            *time = first;
            return 0;
        }
        let code = __real_clock_gettime(clock, time);
        if matches!(reading, ClockReading::First) {
            READING.set(ClockReading::Again(*time));
        }
        code
    }
}

#[cfg(all(test, wraps))]
mod tests {
    use super::once;
    use std::time::{Duration, Instant, SystemTime};

    #[test]
    fn the_monotonic_clock_stands_still_within_once_and_goes_on_after_it() {
        let before = Instant::now();
        let (first, last) = once(|| {
            let (first, began) = (Instant::now(), SystemTime::now());
            // The wall clock goes on.
            while SystemTime::now() <= began + Duration::from_millis(2) {}
            (first, Instant::now())
        });
        assert_eq!(first, last);
        assert!(first >= before);
        assert!(Instant::now() > last + Duration::from_millis(1));
    }
}
