//! Allocations to be used again. A fresh one per chunk costs more than the work on it: the allocator gives memory back to
//! the system and takes it again, page fault by page fault.

use crate::lock;
use crate::rd::PerProcess;
use std::sync::Mutex;

/// At most so many are kept.
const LIMIT: usize = 128;

pub struct Spare<T: 'static> {
    kept: PerProcess<Mutex<Vec<T>>>,
}

impl<T: Send> Spare<T> {
    #[allow(clippy::new_without_default)] // only ever made in a static, where Default can't be called
    pub const fn new() -> Self {
        Self { kept: PerProcess::new() }
    }

    pub fn take(&'static self) -> Option<T> {
        lock(self.kept.get_or_init(Mutex::default)).pop()
    }

    /// Never waited for: the garbage collector may be the caller.
    pub fn give(&'static self, value: T) {
        if let Ok(mut kept) = self.kept.get_or_init(Mutex::default).try_lock()
            && kept.len() < LIMIT
        {
            kept.push(value);
        }
    }
}
