//! Waiting. The only place that gives the Ruby lock (GVL) away: always with an unblock function, so that Thread#kill,
//! Timeout and Ctrl-C end a wait at once. Under a fiber scheduler the fiber is parked and the lock kept.
//!
//! No VALUE is touched and no Ruby function called while the lock is away.

use crate::value;
use magnus::value::ReprValue;
use magnus::{Error, IntoValue, Module, Ruby, Value};
use pelton_core::mailbox::Mailbox;
use pelton_core::rd::PerProcess;
use pelton_core::wait::{Outcome, Parker, Wake, Waiters};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What can be waited for: it wakes everyone added whenever the waited-for may have come true.
pub trait Wakes {
    fn add(&self, waiter: Arc<dyn Wake>);
    fn remove(&self, waiter: &Arc<dyn Wake>);
}

impl Wakes for Waiters {
    fn add(&self, waiter: Arc<dyn Wake>) {
        Waiters::add(self, waiter);
    }

    fn remove(&self, waiter: &Arc<dyn Wake>) {
        Waiters::remove(self, waiter);
    }
}

impl<T> Wakes for Mailbox<T> {
    fn add(&self, waiter: Arc<dyn Wake>) {
        self.add_waiter(waiter);
    }

    fn remove(&self, waiter: &Arc<dyn Wake>) {
        self.remove_waiter(waiter);
    }
}

impl Wakes for pelton_core::delivery::Delivery {
    fn add(&self, waiter: Arc<dyn Wake>) {
        self.add_waiter(waiter);
    }

    fn remove(&self, waiter: &Arc<dyn Wake>) {
        self.remove_waiter(waiter);
    }
}

impl Wakes for pelton_core::producer::Producer {
    fn add(&self, waiter: Arc<dyn Wake>) {
        self.add_waiter(waiter);
    }

    fn remove(&self, waiter: &Arc<dyn Wake>) {
        self.remove_waiter(waiter);
    }
}

impl Wakes for pelton_core::closing::Closing {
    fn add(&self, waiter: Arc<dyn Wake>) {
        self.add_waiter(waiter);
    }

    fn remove(&self, waiter: &Arc<dyn Wake>) {
        self.remove_waiter(waiter);
    }
}

/// Parks the calling Ruby thread or fiber until `ready` (true) or the deadline (false; `None`: never). `Err` is what
/// ended the wait from outside. `ready` runs without the Ruby lock, and once with it before anything is parked.
/// `blocker` is what a fiber scheduler is told the fiber waits for.
pub fn wait(
    ruby: &Ruby,
    blocker: Value,
    on: &dyn Wakes,
    deadline: Option<Instant>,
    ready: &dyn Fn() -> bool,
) -> Result<bool, Error> {
    if ready() {
        return Ok(true);
    }
    if let Some(scheduler) = scheduler() {
        if let Some(woken) = FiberWait::enter(ruby, scheduler, blocker)? {
            return woken.wait(ruby, on, deadline, ready);
        }
    }
    loop {
        let parker = Parker::new();
        let waiter: Arc<dyn Wake> = parker.clone();
        on.add(Arc::clone(&waiter));
        let outcome = without_gvl(&parker, || parker.park_until(deadline, ready));
        on.remove(&waiter);
        drop((waiter, parker));
        match outcome {
            Some(Outcome::Ready) => return Ok(true),
            Some(Outcome::TimedOut) => return Ok(false),
            // Raises for a kill or an exception; returns after a trap or a wake-up of somebody else's making.
            Some(Outcome::Interrupted) | None => ruby.thread_check_ints()?,
        }
    }
}

/// Runs a blocking `work` on a native thread of its own and waits for it as for anything else. `None`: the deadline
/// passed; the work then ends in the background.
pub fn background<T: Send + 'static>(
    ruby: &Ruby,
    blocker: Value,
    deadline: Option<Instant>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Error> {
    struct Call<T> {
        result: Mutex<Option<std::thread::Result<T>>>,
        done: AtomicBool,
        waiters: Waiters,
    }
    let call = Arc::new(Call { result: Mutex::new(None), done: AtomicBool::new(false), waiters: Waiters::default() });
    let theirs = Arc::clone(&call);
    let run = move || {
        let result = catch_unwind(AssertUnwindSafe(work));
        *theirs.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        theirs.done.store(true, Ordering::SeqCst);
        theirs.waiters.wake_all();
    };
    if let Err(error) = std::thread::Builder::new().name("pelton.call".into()).spawn(run) {
        return Err(Error::new(ruby.exception_thread_error(), error.to_string()));
    }
    if !wait(ruby, blocker, &call.waiters, deadline, &|| call.done.load(Ordering::SeqCst))? {
        return Ok(None);
    }
    let result = call.result.lock().unwrap_or_else(PoisonError::into_inner).take();
    match result {
        Some(Ok(result)) => Ok(Some(result)),
        Some(Err(panic)) => resume_unwind(panic),
        None => Ok(None),
    }
}

/// Runs `work` without the Ruby lock; the unblock function interrupts `parker`. `None`: an interrupt was pending, the
/// work was not begun.
fn without_gvl<R, F: FnOnce() -> R>(parker: &Arc<Parker>, work: F) -> Option<R> {
    struct Work<F, R> {
        work: Option<F>,
        result: Option<std::thread::Result<R>>,
    }
    extern "C" fn run<F: FnOnce() -> R, R>(data: *mut c_void) -> *mut c_void {
        // SAFETY: `data` is the `Work` of the call below, which waits for this function.
        let data = unsafe { &mut *data.cast::<Work<F, R>>() };
        if let Some(work) = data.work.take() {
            data.result = Some(catch_unwind(AssertUnwindSafe(work)));
        }
        std::ptr::null_mut()
    }
    extern "C" fn unblock(data: *mut c_void) {
        // SAFETY: `data` is the parker of the call below; Ruby does not call this after that call returned.
        unsafe { &*data.cast::<Parker>() }.interrupt();
    }
    let mut data = Work { work: Some(work), result: None };
    let unblocks = Arc::as_ptr(parker).cast_mut().cast::<c_void>();
    // SAFETY: both pointers live until the call returns. It does not look at interrupts itself ("2"), so it does not
    // raise over our frames.
    unsafe {
        rb_sys::rb_thread_call_without_gvl2(
            Some(run::<F, R>),
            std::ptr::from_mut(&mut data).cast(),
            Some(unblock),
            unblocks,
        );
    }
    match data.result {
        None => None,
        Some(Ok(result)) => Some(result),
        Some(Err(panic)) => resume_unwind(panic),
    }
}

/// The scheduler of the current fiber, if it is a non-blocking one. Fibers of other Ractors than the main one block
/// their thread: the registry of waiting fibers (lib/pelton/fibers.rb) is the main Ractor's.
fn scheduler() -> Option<Value> {
    // SAFETY: no preconditions but the Ruby lock, which every caller has.
    let scheduler = value::cooked(unsafe { rb_sys::rb_fiber_scheduler_current() });
    (!scheduler.is_nil() && value::in_main_ractor()).then_some(scheduler)
}

/// Ids of fibers to be unblocked, for the one Ruby thread that does so.
static WOKEN: PerProcess<Mailbox<u64>> = PerProcess::new();
static LAST_ID: AtomicU64 = AtomicU64::new(0);

pub fn woken_fibers() -> &'static Mailbox<u64> {
    WOKEN.get_or_init(Mailbox::default)
}

/// A parked fiber, as native threads see it.
struct ParkedFiber {
    id: u64,
    /// Whether its unblocking was asked for since it last looked: once is enough, and a second one would wake whatever
    /// the fiber waits for next.
    called: AtomicBool,
}

impl Wake for ParkedFiber {
    fn wake(&self) {
        if !self.called.swap(true, Ordering::SeqCst) {
            woken_fibers().push(self.id);
        }
    }
}

struct FiberWait {
    scheduler: Value,
    blocker: Value,
    fibers: Value,
    parked: Arc<ParkedFiber>,
}

impl FiberWait {
    /// Registers the fiber; `None` where that is not possible (in a trap): then the thread waits.
    fn enter(ruby: &Ruby, scheduler: Value, blocker: Value) -> Result<Option<Self>, Error> {
        let fibers: Value = value::pelton(ruby)?.const_get("Fibers")?;
        let parked = Arc::new(ParkedFiber { id: LAST_ID.fetch_add(1, Ordering::Relaxed), called: AtomicBool::new(true) });
        let entered: bool = fibers.funcall("enter", (parked.id, scheduler, blocker))?;
        Ok(entered.then_some(Self { scheduler, blocker, fibers, parked }))
    }

    fn wait(
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
