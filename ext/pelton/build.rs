//! Makes `cfg(ruby_gte_3_2)` and its like, from what rb-sys reports about the Ruby that it was built for. Puts
//! functions of ours in front of librdkafka's and OpenSSL's. Passes PELTON_LINK_FLAGS (flags.rb) to the linker. Gives
//! the extension its allocator (ext/allocator), unless PELTON_ALLOCATOR=system. The system's librdkafka has the
//! system's allocator, and memory crosses between it and the extension, so both have the same one.

include!("../allocator/wrapped.rs");
include!("../core/wrapped.rs");

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../allocator/wrapped.rs");
    println!("cargo:rerun-if-changed=../core/wrapped.rs");
    println!("cargo:rerun-if-env-changed=PELTON_ALLOCATOR");
    for version in ["3_2", "3_3", "3_4", "4_0"] {
        println!("cargo:rustc-check-cfg=cfg(ruby_gte_{version})");
        if std::env::var(format!("DEP_RB_VERSION_GTE_{version}")).as_deref() == Ok("true") {
            println!("cargo:rustc-cfg=ruby_gte_{version}");
        }
    }
    if linux() {
        // Ruby loads all extensions into one scope of names. There, a function of another one that is called
        // `__wrap_malloc`, too, would get our calls, or ours its. Only `Init_pelton` is not in an archive. (A
        // development version of Ruby looks for `ruby_abi_version` as well, so it cannot load the extension.)
        // Zig's linker does not know `--exclude-libs`. It takes the last version script, and bin/gems gives it one.
        println!("cargo:rerun-if-env-changed=PELTON_VERSION_SCRIPT");
        match std::env::var("PELTON_VERSION_SCRIPT") {
            Ok(path) => println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={path}"),
            Err(_) => println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL"),
        }
    }
    if wraps() {
        println!("cargo:rerun-if-env-changed=OPENSSL_NO_VENDOR");
        if std::env::var("OPENSSL_NO_VENDOR").is_ok_and(|value| value != "0") {
            panic!(
                "OPENSSL_NO_VENDOR: only with PELTON_LIBRDKAFKA=system; otherwise OpenSSL is part of the extension."
            );
        }
        for name in WRAPPED_BY_CORE {
            println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap={name}");
        }
    }
    println!("cargo:rerun-if-env-changed=PELTON_LINK_FLAGS");
    for flag in std::env::var("PELTON_LINK_FLAGS").unwrap_or_default().split_whitespace() {
        println!("cargo:rustc-cdylib-link-arg={flag}");
    }
    println!("cargo:rustc-check-cfg=cfg(own_allocator)");
    if own_allocator() {
        println!("cargo:rustc-cfg=own_allocator");
        for name in WRAPPED {
            println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap={name}");
        }
    }
}

/// Whether the linker can put our functions in front of librdkafka's and libc's: librdkafka is in this shared object,
/// and the linker has `--wrap`.
fn wraps() -> bool {
    linux() && std::env::var_os("CARGO_FEATURE_SYSTEM").is_none()
}

fn linux() -> bool {
    std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux")
}

fn own_allocator() -> bool {
    match std::env::var("PELTON_ALLOCATOR").as_deref() {
        Err(_) | Ok("") => wraps(),
        Ok("system") => false,
        Ok("jemalloc") if wraps() => true,
        Ok("jemalloc") => panic!("PELTON_ALLOCATOR=jemalloc: only on Linux, and not with PELTON_LIBRDKAFKA=system."),
        Ok(other) => panic!("PELTON_ALLOCATOR={other}: unknown; it can be jemalloc (the default on Linux) or system."),
    }
}
