//! The system's allocator, which counts what it gave: for a test that is alone in its process.
#![allow(dead_code)] // each test binary uses a part

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

struct Counting;

static HELD: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

// SAFETY: the system's allocator, and counts beside it. `realloc` is the trait's own, by these two.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size() as isize, Ordering::Relaxed) + layout.size() as isize;
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: as promised to us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: as promised to us.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that are held now.
pub fn held() -> isize {
    HELD.load(Ordering::Relaxed)
}

/// The same, from which on the most is counted.
pub fn watch() -> isize {
    let held = held();
    MOST.store(held, Ordering::Relaxed);
    held
}

/// The most that was held at once.
pub fn most() -> isize {
    MOST.load(Ordering::Relaxed)
}
