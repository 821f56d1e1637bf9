//! Puts functions of ours in front of librdkafka's and OpenSSL's, where the core is linked by itself, as in tests.

include!("wrapped.rs");

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=wrapped.rs");
    println!("cargo:rustc-check-cfg=cfg(wraps)");
    let linux = std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux");
    if linux && std::env::var_os("CARGO_FEATURE_SYSTEM").is_none() {
        println!("cargo:rustc-cfg=wraps");
        for name in WRAPPED_BY_CORE {
            println!("cargo:rustc-link-arg=-Wl,--wrap={name}");
        }
    }
}
