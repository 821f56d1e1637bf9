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
