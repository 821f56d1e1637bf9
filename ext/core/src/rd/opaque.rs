//! The value that travels with a message through librdkafka and comes back with its delivery report. It packs a pointer
//! to the owner and the message's position into one word (`msg_opaque`).
//!
//! User-space addresses have at most 48 bits, and an owner is aligned to 8. So 45 bits hold the pointer, and 19 the
//! position (checked when packed). The owner itself counts its outstanding references (`hold`, `report`).

use std::ffi::c_void;
use std::sync::Arc;

/// The result of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    pub partition: i32,
    /// −1001 (`RD_KAFKA_OFFSET_INVALID`) when the message failed.
    pub offset: i64,
    /// 0 when delivered.
    pub error: i32,
    /// Microseconds from the produce call until this report of a delivered message, if they were asked for; otherwise
    /// 0.
    pub micros: i64,
}

/// An owner of messages on their way. The thread that drains the report queue calls `report` exactly once per message.
/// It returns whether to give back one of the counts that `hold` took. `must_report`: a failure must be returned to a
/// caller or become an event.
pub trait Reported: Send + Sync + 'static {
    fn report(&self, position: u32, report: Report, must_report: bool) -> bool;
}

#[cfg(not(target_pointer_width = "64"))]
compile_error!("an address and a position share one word: Pelton needs a 64-bit machine");

const POSITION_BITS: u32 = 19;
/// Messages that one owner may have on their way.
pub const MAX_POSITIONS: usize = 1 << POSITION_BITS;

pub(super) fn pack<T>(owner: &Arc<T>, position: u32) -> Option<*mut c_void> {
    let address = Arc::as_ptr(owner) as u64;
    let fits = address >> 48 == 0 && address.is_multiple_of(8) && (position as usize) < MAX_POSITIONS;
    fits.then(|| ((address >> 3 << POSITION_BITS) | u64::from(position)) as *mut c_void)
}

fn unpack<T>(word: *mut c_void) -> (*const T, u32) {
    let word = word as u64;
    ((word >> POSITION_BITS << 3) as *const T, (word & (MAX_POSITIONS as u64 - 1)) as u32)
}

/// An owner and a position as one word, which counts as a reference of the owner; `None` if they don't fit.
pub fn seal<T>(owner: Arc<T>, position: u32) -> Option<*mut c_void> {
    let word = pack(&owner, position)?;
    std::mem::forget(owner);
    Some(word)
}

/// # Safety
/// `word` must come from `seal` of an `Arc<T>`; its reference passes to the caller.
pub unsafe fn unseal<T>(word: *mut c_void) -> (Arc<T>, u32) {
    let (pointer, position) = unpack::<T>(word);
    // SAFETY: the caller's promise.
    (unsafe { Arc::from_raw(pointer) }, position)
}

/// Lets librdkafka hold the owner until a report that gives it back. Call it before the message is sent.
pub(crate) fn hold<T>(owner: &Arc<T>) {
    std::mem::forget(Arc::clone(owner));
}

/// Reports a position of a held owner whose message never entered librdkafka.
pub(crate) fn report_unsent<T: Reported>(owner: &Arc<T>, position: u32, report: Report, must_report: bool) {
    if owner.report(position, report, must_report) {
        // SAFETY: gives back the count that `hold` took; the caller's own count keeps the owner alive here.
        unsafe { Arc::decrement_strong_count(Arc::as_ptr(owner)) };
    }
}

/// Hands a report to its owner. `seen` gets it first and returns whether a failure must be published.
///
/// # Safety
/// `word` must come from `pack` of an `Arc<T>` that is still held (`hold`).
pub(super) unsafe fn deliver<T: Reported>(word: *mut c_void, report: Report, seen: impl Fn(Report) -> bool) {
    let (pointer, position) = unpack::<T>(word);
    // SAFETY: held by the caller's promise.
    let owner = unsafe { &*pointer };
    let must_report = seen(report);
    if owner.report(position, report, must_report) {
        // SAFETY: gives back the count that `hold` took, once, since `report` says "last" once.
        unsafe { Arc::decrement_strong_count(pointer) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_holds_owner_and_position() {
        let owner = Arc::new(7u64);
        for position in [0, 1, 524_287] {
            let word = pack(&owner, position).expect("fits");
            assert_eq!((Arc::as_ptr(&owner), position), unpack::<u64>(word));
        }
        assert!(pack(&owner, MAX_POSITIONS as u32).is_none());
    }
}
