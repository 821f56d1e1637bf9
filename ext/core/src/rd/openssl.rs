//! Initializes OpenSSL without its exit handler. That handler frees OpenSSL's globals while the threads of clients that
//! are still open use them, which crashes the process at its exit.

use std::ffi::{c_int, c_void};
use std::sync::Once;

type Init = unsafe extern "C" fn(options: u64, settings: *const c_void) -> c_int;

/// Has to come before librdkafka initializes OpenSSL.
pub(super) fn keep_at_exit() {
    const NO_ATEXIT: u64 = 0x0008_0000; // OPENSSL_INIT_NO_ATEXIT
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Some(init) = init() {
            // SAFETY: thread-safe, without preconditions; null: default settings.
            unsafe { init(NO_ATEXIT, std::ptr::null()) };
        }
    });
}

/// OpenSSL's function; librdkafka links the same OpenSSL statically.
#[cfg(not(feature = "system"))]
fn init() -> Option<Init> {
    unsafe extern "C" {
        fn OPENSSL_init_crypto(options: u64, settings: *const c_void) -> c_int;
    }
    Some(OPENSSL_init_crypto)
}

/// The function of the OpenSSL that the system's librdkafka is linked with. `None`: it has none, or hides it. Ruby's
/// extension `openssl` mostly uses the same one. If it initialized OpenSSL earlier, the exit handler stays.
#[cfg(feature = "system")]
fn init() -> Option<Init> {
    // SAFETY: a function's address, and a place for what is known about it; `dlopen` gets the path of a library that is
    // loaded, and stays so; the symbol is null or a function of that type.
    unsafe {
        let mut info = std::mem::zeroed::<libc::Dl_info>();
        if libc::dladdr(super::sys::rd_kafka_version as *const c_void, &mut info) == 0 {
            return None;
        }
        let library = libc::dlopen(info.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if library.is_null() {
            return None;
        }
        let symbol = libc::dlsym(library, c"OPENSSL_init_crypto".as_ptr());
        (!symbol.is_null()).then(|| std::mem::transmute::<*mut c_void, Init>(symbol))
    }
}
