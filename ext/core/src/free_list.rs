//! Allocations to use again. A new one per chunk costs more than the work on it: the allocator returns memory to the
//! system and takes it again, page fault by page fault.

use crate::lock;
use crate::rd::PerProcess;
use std::sync::Mutex;

pub struct FreeList<T: 'static> {
    /// The most that are kept.
    limit: usize,
    kept: PerProcess<Mutex<Vec<T>>>,
}

impl<T: Send> FreeList<T> {
    pub const fn new(limit: usize) -> Self {
        Self { limit, kept: PerProcess::new() }
    }

    pub fn take(&'static self) -> Option<T> {
        lock(self.kept.get_or_init(Mutex::default)).pop()
    }

    /// Never waited for: the garbage collector may be the caller.
    pub fn give(&'static self, value: T) {
        if let Ok(mut kept) = self.kept.get_or_init(Mutex::default).try_lock()
            && kept.len() < self.limit
        {
            kept.push(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_taken_again_up_to_the_limit() {
        static LIST: FreeList<u8> = FreeList::new(2);
        assert_eq!(None, LIST.take());
        (1..=3).for_each(|value| LIST.give(value));
        assert_eq!([Some(2), Some(1), None], [LIST.take(), LIST.take(), LIST.take()]);
    }
}
