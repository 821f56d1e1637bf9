//! Waits of fibers that a scheduler runs. The thread keeps the GVL and goes on with other fibers.

use super::Wakes;
use crate::value;
use magnus::value::ReprValue;
use magnus::{Error, IntoValue, Module, Ruby, Value};
use pelton_core::mailbox::Mailbox;
use pelton_core::rd::PerProcess;
use pelton_core::wait::Wake;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Ids of fibers to be unblocked, for the one Ruby thread that does so.
static WOKEN: PerProcess<Mailbox<u64>> = PerProcess::new();

static LAST_ID: AtomicU64 = AtomicU64::new(0);

pub fn woken_fibers() -> &'static Mailbox<u64> {
    WOKEN.get_or_init(Mailbox::default)
}

/// A parked fiber, as native threads see it.
struct ParkedFiber {
    id: u64,
    /// Whether its unblocking was requested since its last check. Once is enough: a second request would end the
    /// fiber's next wait.
    called: AtomicBool,
}

impl Wake for ParkedFiber {
    fn wake(&self) {
        if !self.called.swap(true, Ordering::SeqCst) {
            woken_fibers().push(self.id);
        }
    }
}

pub(super) struct FiberWait {
    scheduler: Value,
    blocker: Value,
    fibers: Value,
    parked: Arc<ParkedFiber>,
}

impl FiberWait {
    /// Registers the fiber. `None` if that is not possible (in a trap): then the thread waits.
    pub(super) fn enter(ruby: &Ruby, scheduler: Value, blocker: Value) -> Result<Option<Self>, Error> {
        let fibers: Value = value::pelton(ruby)?.const_get("Fibers")?;
        let parked =
            Arc::new(ParkedFiber { id: LAST_ID.fetch_add(1, Ordering::Relaxed), called: AtomicBool::new(true) });
        let entered: bool = fibers.funcall("enter", (parked.id, scheduler, blocker))?;
        Ok(entered.then_some(Self { scheduler, blocker, fibers, parked }))
    }

    pub(super) fn wait(
        self,
        ruby: &Ruby,
        on: &dyn Wakes,
        deadline: Option<Instant>,
        ready: &dyn Fn() -> bool,
    ) -> Result<bool, Error> {
        let waiter: Arc<dyn Wake> = self.parked.clone();
        on.add(Arc::clone(&waiter));
        let outcome = self.park(ruby, deadline, ready);
        self.parked.called.store(true, Ordering::SeqCst);
        on.remove(&waiter);
        self.fibers.funcall::<_, _, Value>("leave", (self.parked.id,))?;
        outcome
    }

    fn park(&self, ruby: &Ruby, deadline: Option<Instant>, ready: &dyn Fn() -> bool) -> Result<bool, Error> {
        loop {
            self.parked.called.store(false, Ordering::SeqCst);
            if ready() {
                return Ok(true);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
            let left = left.map_or_else(|| ruby.qnil().as_value(), |left| left.as_secs_f64().into_value_with(ruby));
            self.scheduler.funcall::<_, _, Value>("block", (self.blocker, left))?;
        }
    }
}
