//! Waits. Only this file releases the GVL, always with an unblock function. So Thread#kill, Timeout and Ctrl-C end a
//! wait at once. Under a fiber scheduler the fiber is parked and the thread keeps the GVL.
//!
//! While the GVL is released, no code here touches a VALUE or calls a Ruby function.

#[forbid(unsafe_code)]
mod fibers;

use crate::value;
use fibers::FiberWait;
pub use fibers::woken_fibers;
use magnus::value::ReprValue;
use magnus::{Error, Ruby, Value};
use pelton_core::mailbox::Mailbox;
use pelton_core::wait::{Outcome, Waiters, Wake};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Something to wait for: it wakes every waiter whenever its condition may have become true.
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

/// Parks the calling Ruby thread or fiber until `ready` (true) or the deadline (false; `None` for no deadline). `Err`
/// is what ended the wait from outside. `ready` runs without the GVL, and once with it before anything is parked.
/// `blocker` is the object that a fiber scheduler sees.
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
    if let Some(scheduler) = scheduler()
        && let Some(parked) = FiberWait::enter(ruby, scheduler, blocker)?
    {
        return parked.wait(ruby, on, deadline, ready);
    }
    let patience = patience();
    loop {
        let sleeper = Sleeper::new();
        let waiter: Arc<dyn Wake> = sleeper.clone();
        on.add(Arc::clone(&waiter));
        let outcome = without_gvl(&sleeper, || sleeper.rest(deadline, patience, ready));
        on.remove(&waiter);
        drop((waiter, sleeper));
        match outcome {
            Some(Outcome::Ready) => return Ok(true),
            Some(Outcome::TimedOut) => return Ok(false),
            // Raises for a kill or an exception. Returns after a trap or a wake-up from other code.
            Some(Outcome::Interrupted) | None => ruby.thread_check_ints()?,
        }
    }
}

/// Runs a blocking `work` on a native thread of its own, and waits for it as for anything else. `None`: the deadline
/// passed, and the work ends in the background.
pub fn background<T: Send + 'static>(
    ruby: &Ruby,
    blocker: Value,
    deadline: Option<Instant>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Error> {
    struct NativeCall<T> {
        result: Mutex<Option<std::thread::Result<T>>>,
        done: AtomicBool,
        waiters: Waiters,
    }
    let call =
        Arc::new(NativeCall { result: Mutex::new(None), done: AtomicBool::new(false), waiters: Waiters::default() });
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

/// Bytes of work that other Ruby threads should not have to wait for: up to a millisecond. Releasing the GVL costs a
/// native thread (some 50 µs). If other Ruby threads compute, it also costs up to one of their time slices (100 ms)
/// until the GVL comes back. So it pays only if the work takes many times as long as that thread, not for each document
/// of some kilobytes.
const LONG: usize = 256 << 10;

/// Whether `aside` leaves the lock for that many bytes.
pub fn is_long(bytes: usize) -> bool {
    bytes >= LONG
}

/// Does `work` on that many bytes: beside the other Ruby threads if it takes long, otherwise at once.
pub fn aside<T: Send + 'static>(
    ruby: &Ruby,
    blocker: Value,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    if !is_long(bytes) {
        return Ok(work());
    }
    let ended = || Error::new(ruby.exception_runtime_error(), "a native thread ended without a result");
    background(ruby, blocker, None, work)?.ok_or_else(ended)
}

/// For loops that read Ruby objects, which needs the lock: gives other threads their turn, as Ruby itself does between
/// two lines of Ruby.
pub struct TimeSlice {
    steps: u32,
    since: Instant,
}

impl TimeSlice {
    const STEPS: u32 = 64;
    const TIME: Duration = Duration::from_millis(10);

    pub fn new() -> Self {
        Self { steps: 0, since: Instant::now() }
    }

    /// After each step of the loop. True: other threads may have run, and changed what the loop reads. Fails where the
    /// thread is to end, or to raise.
    pub fn step(&mut self, ruby: &Ruby) -> Result<bool, Error> {
        self.steps += 1;
        if !self.steps.is_multiple_of(Self::STEPS) || self.since.elapsed() < Self::TIME {
            return Ok(false);
        }
        ruby.thread_check_ints()?;
        self.since = Instant::now();
        Ok(true)
    }
}

/// A sleeping thread. Unlike std's parking, its sleep ends when a signal's handler ran on the thread. Up to Ruby 3.2
/// the main thread may not learn of a signal (no unblock function is called) when all other Ruby threads wait in native
/// code too.
struct Sleeper {
    /// 1: woken, look again.
    woken: AtomicU32,
    interrupted: AtomicBool,
    #[cfg(not(target_os = "linux"))]
    thread: std::thread::Thread,
}

impl Sleeper {
    /// For the calling thread.
    fn new() -> Arc<Self> {
        Arc::new(Self {
            woken: AtomicU32::new(0),
            interrupted: AtomicBool::new(false),
            #[cfg(not(target_os = "linux"))]
            thread: std::thread::current(),
        })
    }

    fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Sleeps until `ready`, the deadline, an interrupt or a signal. `patience` is the longest time between two checks
    /// of interrupts.
    fn rest(&self, deadline: Option<Instant>, patience: Option<Duration>, ready: &dyn Fn() -> bool) -> Outcome {
        loop {
            // First of all: every wake-up from here on is seen.
            self.woken.store(0, Ordering::SeqCst);
            if ready() {
                return Outcome::Ready;
            }
            if self.interrupted.load(Ordering::SeqCst) {
                return Outcome::Interrupted;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let nap = match (left, patience) {
                (Some(Duration::ZERO), _) => return Outcome::TimedOut,
                (Some(left), Some(patience)) => Some(left.min(patience)),
                (left, patience) => left.or(patience),
            };
            if self.nap(nap) || (nap.is_some() && nap == patience) {
                return if ready() { Outcome::Ready } else { Outcome::Interrupted };
            }
        }
    }

    /// Sleeps unless woken; true when a signal ended it.
    #[cfg(target_os = "linux")]
    fn nap(&self, timeout: Option<Duration>) -> bool {
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().min(i32::MAX as u64) as libc::time_t,
            tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: a live word, and a live time or none. Sleeps only if the word is still 0.
        let result = unsafe { libc::syscall(libc::SYS_futex, self.woken.as_ptr(), operation, 0u32, timeout) };
        result != 0 && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
    }

    #[cfg(not(target_os = "linux"))]
    fn nap(&self, timeout: Option<Duration>) -> bool {
        if self.woken.load(Ordering::SeqCst) == 0 {
            std::thread::park_timeout(timeout.unwrap_or(Duration::MAX));
        }
        false
    }
}

impl Wake for Sleeper {
    fn wake(&self) {
        if self.woken.swap(1, Ordering::SeqCst) == 0 {
            #[cfg(target_os = "linux")]
            // SAFETY: a live word; wakes one sleeper at most.
            unsafe {
                libc::syscall(libc::SYS_futex, self.woken.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
            }
            #[cfg(not(target_os = "linux"))]
            self.thread.unpark();
        }
    }
}

/// How long a thread may sleep without checking interrupts. There is no limit, except for the main thread of a Ruby
/// that may not report signals to it (see `Sleeper`). There a signal's handler may run just before the thread sleeps.
fn patience() -> Option<Duration> {
    #[cfg(not(ruby_gte_3_3))]
    // SAFETY: no preconditions but the GVL contract (see `value`).
    if unsafe { rb_sys::rb_thread_current() == rb_sys::rb_thread_main() } {
        return Some(Duration::from_secs(1));
    }
    None
}

/// Runs `work` without the GVL; the unblock function interrupts `sleeper`. `None`: an interrupt was pending, and the
/// work did not start.
fn without_gvl<R, F: FnOnce() -> R>(sleeper: &Arc<Sleeper>, work: F) -> Option<R> {
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
        // SAFETY: `data` is the sleeper of the call below; Ruby does not call this after that call returned.
        unsafe { &*data.cast::<Sleeper>() }.interrupt();
    }
    let mut data = Work { work: Some(work), result: None };
    let unblocks = Arc::as_ptr(sleeper).cast_mut().cast::<c_void>();
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
/// their thread: the registry of waiting fibers (lib/pelton/runtime/fibers.rb) is the main Ractor's.
fn scheduler() -> Option<Value> {
    // SAFETY: no preconditions but the GVL contract (see `value`).
    let scheduler = value::cooked(unsafe { rb_sys::rb_fiber_scheduler_current() });
    (!scheduler.is_nil() && value::in_main_ractor()).then_some(scheduler)
}
