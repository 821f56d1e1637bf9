//! A queue from native threads to one or more waiting readers.

use crate::lock;
use crate::wait::{Outcome, Parker, Waiters, Wake};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

pub struct Mailbox<T> {
    items: Mutex<VecDeque<T>>,
    /// The number of items that ever came in. Written under the lock of `items`.
    pushed: AtomicU64,
    /// A wait must end without an item.
    woken: AtomicBool,
    waiters: Waiters,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self {
            items: Mutex::default(),
            pushed: AtomicU64::new(0),
            woken: AtomicBool::new(false),
            waiters: Waiters::default(),
        }
    }
}

impl<T> Mailbox<T> {
    pub fn push(&self, item: T) {
        self.push_bounded(item, usize::MAX);
    }

    /// Appends unless `limit` items are there already (then it is dropped: false).
    pub fn push_bounded(&self, item: T, limit: usize) -> bool {
        let mut items = lock(&self.items);
        if items.len() >= limit {
            return false;
        }
        items.push_back(item);
        self.pushed.fetch_add(1, Ordering::SeqCst);
        drop(items);
        self.waiters.wake_all();
        true
    }

    /// Replaces the first item that `same` recognizes, or appends the item. Only checks and fills the first `limit`
    /// places. A replacement does not count as another item. Returns false if the item was dropped.
    pub fn replace_bounded(&self, item: T, limit: usize, same: impl Fn(&T) -> bool) -> bool {
        let mut items = lock(&self.items);
        let Some(index) = items.iter().take(limit).position(same) else {
            drop(items);
            return self.push_bounded(item, limit);
        };
        let replaced = std::mem::replace(&mut items[index], item);
        drop(items);
        drop(replaced); // without the lock, because it may be large
        true
    }

    /// The number of items that ever came in.
    pub fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::SeqCst)
    }

    pub fn pop(&self) -> Option<T> {
        lock(&self.items).pop_front()
    }

    /// The oldest items, at most `count`.
    pub fn take(&self, count: usize) -> VecDeque<T> {
        let mut items = lock(&self.items);
        if items.len() <= count {
            return std::mem::take(&mut *items);
        }
        items.drain(..count).collect()
    }

    /// Everything there is.
    pub fn take_all(&self) -> VecDeque<T> {
        std::mem::take(&mut lock(&self.items))
    }

    /// Drops items that should not be kept, without the lock, because a drop may take other locks.
    pub fn retain(&self, keep: impl FnMut(&T) -> bool) {
        let mut items = lock(&self.items);
        let (kept, dropped): (VecDeque<T>, VecDeque<T>) = std::mem::take(&mut *items).into_iter().partition(keep);
        *items = kept;
        drop(items);
        drop(dropped);
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.items).is_empty()
    }

    /// Makes the running wait, or the next one, end at once without an item.
    pub fn wake(&self) {
        self.woken.store(true, Ordering::SeqCst);
        self.waiters.wake_all();
    }

    /// Whether there is reason to come back; a wake-up is used up by that.
    pub fn ready(&self) -> bool {
        !self.is_empty() || self.woken.swap(false, Ordering::SeqCst)
    }

    /// Parks until there is an item or a wake-up.
    pub fn wait(&self, parker: &Arc<Parker>, deadline: Option<Instant>) -> Outcome {
        self.waiters.wait(parker, deadline, || self.ready())
    }

    pub fn add_waiter(&self, waiter: Arc<dyn Wake>) {
        self.waiters.add(waiter);
    }

    pub fn remove_waiter(&self, waiter: &Arc<dyn Wake>) {
        self.waiters.remove(waiter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct DroppedItem(Arc<Mailbox<DroppedItem>>, Arc<AtomicU64>);

    impl Drop for DroppedItem {
        fn drop(&mut self) {
            if self.0.items.try_lock().is_ok() {
                self.1.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    #[test]
    fn what_is_not_kept_is_dropped_without_the_lock() {
        let (mailbox, free) = (Arc::new(Mailbox::default()), Arc::new(AtomicU64::new(0)));
        for _ in 0..3 {
            mailbox.push(DroppedItem(Arc::clone(&mailbox), Arc::clone(&free)));
        }
        let mut seen = 0;
        mailbox.retain(|_| {
            seen += 1;
            seen == 2
        });
        assert_eq!((2, 1), (free.load(Ordering::SeqCst), mailbox.take_all().len()));
    }

    #[test]
    fn a_bounded_mailbox_drops_what_comes_while_it_is_full() {
        let mailbox = Mailbox::default();
        assert_eq!([true, true, false], [1, 2, 3].map(|item| mailbox.push_bounded(item, 2)));
        assert_eq!(2, mailbox.pushed());
        assert!(mailbox.replace_bounded(4, 2, |item| *item == 2));
        assert!(
            !mailbox.replace_bounded(5, 1, |item| *item == 4),
            "it is behind the first place, and there is no other"
        );
        assert!(mailbox.replace_bounded(6, 3, |item| *item == 9));
        assert_eq!((3, vec![1, 4, 6]), (mailbox.pushed(), mailbox.take_all().into()));
    }

    #[test]
    fn the_oldest_items_are_taken_first() {
        let mailbox = Mailbox::default();
        (1..=5).for_each(|item| mailbox.push(item));
        assert_eq!([vec![1, 2], vec![], vec![3, 4, 5]], [2, 0, 7].map(|count| Vec::from(mailbox.take(count))));
        assert!(mailbox.is_empty() && mailbox.pop().is_none());
    }

    #[test]
    fn a_wake_up_ends_one_wait() {
        let mailbox = Mailbox::<()>::default();
        let wait = || mailbox.wait(&Parker::new(), Some(Instant::now()));
        assert_eq!(Outcome::TimedOut, wait());
        mailbox.wake();
        assert_eq!([Outcome::Ready, Outcome::TimedOut], [wait(), wait()]);
        mailbox.push(());
        assert_eq!([Outcome::Ready, Outcome::Ready], [wait(), wait()], "until it is taken");
    }

    #[test]
    fn a_waiter_that_left_is_not_woken() {
        struct Woken(AtomicU64);
        impl Wake for Woken {
            fn wake(&self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let (mailbox, waiter) = (Mailbox::default(), Arc::new(Woken(AtomicU64::new(0))));
        let wakes: Arc<dyn Wake> = waiter.clone();
        mailbox.add_waiter(Arc::clone(&wakes));
        mailbox.push(1);
        assert_eq!(1, waiter.0.load(Ordering::SeqCst));
        mailbox.take_all();
        mailbox.remove_waiter(&wakes);
        mailbox.push(2);
        assert_eq!(1, waiter.0.load(Ordering::SeqCst));
    }
}
