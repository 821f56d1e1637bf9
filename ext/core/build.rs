//! Puts functions of ours in front of librdkafka's (`src/rd/fetching.rs`), where the core is linked by itself, as in tests.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(wraps)");
    let linux = std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux");
    if linux && std::env::var_os("CARGO_FEATURE_SYSTEM").is_none() {
        println!("cargo:rustc-cfg=wraps");
        println!("cargo:rustc-link-arg=-Wl,--wrap=rd_kafka_toppar_fetch_decide");
        println!("cargo:rustc-link-arg=-Wl,--wrap=rd_kafka_toppar_get2");
    }
}
