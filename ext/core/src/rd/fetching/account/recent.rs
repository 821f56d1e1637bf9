//! How many bytes a partition's consumer finished of late.

/// Microseconds: a bit more than a broker keeps a fetch that waits for quiet partitions (`fetch.wait.max.ms`), during
/// which a busy one is not fetched.
const WINDOW: i64 = 120_000;

/// Bytes of this window and of the one before, so of one to two windows.
#[derive(Default)]
pub(super) struct Recent {
    since: i64,
    current: usize,
    before: usize,
}

impl Recent {
    pub fn add(&mut self, bytes: usize, now: i64) {
        if now - self.since >= WINDOW {
            self.before = if now - self.since < 2 * WINDOW { self.current } else { 0 };
            (self.since, self.current) = (now, 0);
        }
        self.current += bytes;
    }

    pub fn bytes(&self, now: i64) -> usize {
        match now - self.since {
            passed if passed < WINDOW => self.before + self.current,
            passed if passed < 2 * WINDOW => self.current,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_for_one_window_at_least_and_two_at_most() {
        let mut recent = Recent::default();
        recent.add(1, WINDOW);
        recent.add(2, 2 * WINDOW - 1);
        assert_eq!(3, recent.bytes(2 * WINDOW - 1));
        assert_eq!(3, recent.bytes(2 * WINDOW), "the window before");
        recent.add(4, 2 * WINDOW);
        assert_eq!(7, recent.bytes(3 * WINDOW - 1));
        assert_eq!(4, recent.bytes(3 * WINDOW));
        assert_eq!(0, recent.bytes(4 * WINDOW));
        recent.add(8, 4 * WINDOW);
        assert_eq!(8, recent.bytes(4 * WINDOW), "nothing of two windows ago");
    }
}
